"""Compressed logs, whole and cut; files that cannot be read among others that can."""

import gzip
from pathlib import Path

import pytest
from busbw_testing.logs import Command, nccl_table

from busbw.foreign.read_any import UnreadableError, read_file

TEXT = "".join(map(nccl_table, range(12))).encode()


@pytest.mark.parametrize("name", ["a.log.gz", "a.log"])
def test_compressed_whatever_the_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(TEXT[: len(TEXT) // 2]) + gzip.compress(TEXT[len(TEXT) // 2 :]))
    reading = read_file(path)
    assert len(reading.tables) == 12
    assert all(len(table.rows) == 29 and table.ended for table in reading.tables)
    assert reading.findings == ()


def test_a_cut_file_keeps_its_beginning(tmp_path: Path) -> None:
    whole = gzip.compress(TEXT)
    (tmp_path / "a.gz").write_bytes(whole[: len(whole) * 2 // 3])
    reading = read_file(tmp_path / "a.gz")
    assert 4 < len(reading.tables) < 12
    assert [finding.text for finding in reading.findings] == ["the compressed file is cut here"]
    assert reading.findings[0].line == reading.origin.log_lines


def test_a_damaged_file_is_read_up_to_the_damage(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(TEXT))
    for at in range(len(whole) // 3, len(whole) // 3 + 40):
        whole[at] ^= 0x5A
    (tmp_path / "a.gz").write_bytes(whole)
    reading = read_file(tmp_path / "a.gz")
    assert reading.findings[-1].kind == "cut"
    assert sum(len(table.rows) for table in reading.tables) < 12 * 29


def test_what_cannot_be_read_does_not_keep_the_others_from_it(tmp_path: Path, command: Command) -> None:
    (tmp_path / "b.log").write_bytes(TEXT)
    with pytest.raises(UnreadableError, match=r"cannot read .*a\.log"):
        read_file(tmp_path / "a.log")
    code, out, err = command("import", tmp_path / "b.log", tmp_path / "a.log", "--dry-run")
    assert code == 2
    assert "12 to import, 1 not read" in out
    assert f"error: cannot read {tmp_path / 'a.log'}" in err
