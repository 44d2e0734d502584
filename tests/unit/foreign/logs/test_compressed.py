"""Compressed logs, whole and cut; files that cannot be read among others that can."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.cli.import_logs import import_logs
from busbw.errors import ExitCode
from busbw.foreign.read_any import UnreadableError, read_file
from busbw.plan.flags.logs import ImportSettings


@pytest.fixture
def text(nccl_table: Callable[[int], str]) -> bytes:
    return "".join(map(nccl_table, range(60))).encode()


@pytest.mark.parametrize("name", ["a.log.gz", "a.log"])
def test_compressed_whatever_the_name(name: str, text: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text[: len(text) // 2]) + gzip.compress(text[len(text) // 2 :]))
    reading = read_file(path)
    assert len(reading.tables) == 60
    assert all(len(table) == 29 and table.ended for table in reading.tables)
    assert reading.findings == ()


def test_a_cut_file_keeps_its_beginning(text: bytes, tmp_path: Path) -> None:
    whole = gzip.compress(text)
    (tmp_path / "a.gz").write_bytes(whole[: len(whole) * 2 // 3])
    reading = read_file(tmp_path / "a.gz")
    assert 20 < len(reading.tables) < 60
    assert [finding.text for finding in reading.findings] == ["the compressed file is cut here"]
    assert reading.findings[0].line == reading.origin.log_lines


def test_a_damaged_file_is_read_up_to_the_damage(text: bytes, tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(text))
    for at in range(len(whole) // 3, len(whole) // 3 + 40):
        whole[at] ^= 0x5A
    (tmp_path / "a.gz").write_bytes(whole)
    reading = read_file(tmp_path / "a.gz")
    assert reading.findings[-1].kind == "cut"
    assert sum(map(len, reading.tables)) < 60 * 29


def test_what_cannot_be_read_does_not_keep_the_others_from_it(
    text: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path / "runs"))
    (tmp_path / "b.log").write_bytes(text)
    with pytest.raises(UnreadableError, match=r"cannot read .*a\.log"):
        read_file(tmp_path / "a.log")
    paths = tuple(str(tmp_path / name) for name in ("a.log", "b.log"))
    assert import_logs(paths, ImportSettings(dry_run=True)) is ExitCode.USAGE
    printed = capsys.readouterr()
    assert "60 to import, 1 not read" in printed.out
    assert f"error: cannot read {paths[0]}" in printed.err
