"""Files as people have them: other encodings, packed, pasted, copied twice, behind prefixes of all sorts."""

import gzip
import io
import lzma
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.foreign.read_any import Reading, read_file
from busbw.model.record import RunRecord
from busbw.record.folder import run_folders
from busbw.record.read import read_record


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path / "runs"))
    return tmp_path / "runs"


def same_rows(found: list[RunRecord], wanted: list[RunRecord]) -> bool:
    return [(record.plan.cases, record.results) for record in found] == [
        (record.plan.cases, record.results) for record in wanted
    ]


def with_prefix(text: str, prefix: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


# Each is the same log: as other programs store or show it.
FORMS: dict[str, Callable[[str], bytes]] = {
    "UTF-16, as PowerShell redirects": lambda text: text.replace("\n", "\r\n").encode("utf-16"),
    "UTF-16, big endian": lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
    "UTF-16, compressed": lambda text: gzip.compress(text.encode("utf-16")),
    "UTF-8 with a mark": lambda text: b"\xef\xbb\xbf" + text.encode(),
    "tabs": lambda text: "".join("\t".join(line.split()) + "\n" for line in text.splitlines()).encode(),
    "blanks of the web": lambda text: text.replace("  ", "\u00a0\u00a0").encode(),
    "colours": lambda text: with_prefix(text, "\x1b[32m").replace("\n", "\x1b(B\x1b[m\n").encode(),
    "a terminal's title": lambda text: with_prefix(text, "\x1b]0;node1: bash\x07").encode(),
    "empty lines between all": lambda text: text.replace("\n", "\n\n").encode(),
    "other words around it": lambda text: f"# Report\n\n```\n{text}```\n\nAll good?\n".encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_rows_however_a_log_is_stored(
    form: str, nccl_table: Callable[[int], str], imported: Callable[..., list[RunRecord]]
) -> None:
    text = nccl_table(1) + nccl_table(2)
    found = imported(FORMS[form](text))
    assert same_rows(found, imported(text))
    assert [record.source.findings for record in found] == [(), ()]


def packed(kind: str, text: bytes) -> bytes:
    if kind == "zip":
        with zipfile.ZipFile(buffer := io.BytesIO(), "w") as file:
            file.writestr("a.log", text)
        return buffer.getvalue()
    return lzma.compress(text) if kind == "xz" else b"\x7fELF\x02\x01\x01\0" + text


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("xz", "it is compressed with xz: decompress it, as in `xz -dc FILE | busbw import -`"),
        ("zip", "it is compressed with zip: decompress it, as in `unzip -p FILE | busbw import -`"),
        ("binary", "it is binary, not text"),
    ],
)
def test_what_is_no_text_is_named(
    kind: str,
    why: str,
    home: Path,
    tmp_path: Path,
    nccl_table: Callable[[int], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(packed(kind, nccl_table(1).encode()))
    assert main(["import", str(path)]) == 2
    assert f"error: no table of a known tool in {path}: {why}" in capsys.readouterr().err
    assert read_file(path).origin.sha256 == ""  # files of gigabytes are not read to the end for nothing


def test_compressed_on_standard_input(
    home: Path, nccl_table: Callable[[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = gzip.compress(nccl_table(1).encode())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert main(["import", "-"]) == 0
    assert len(run_folders(home)) == 1


def test_words_before_a_row_are_no_prefix(
    nccl_table: Callable[[int], str], imported: Callable[..., list[RunRecord]]
) -> None:
    """A row and a heading in one line, several times: nothing of a row is taken for a prefix."""
    lines = nccl_table(1).splitlines()
    rows = [line for line in lines if line.strip()[:1].isdigit()]
    text = "\n".join(
        [*lines[:-3], *(f"{row}# Out of bounds values : 0 OK" for row in rows[-2:]), *lines[-3:]]
    )
    (record,) = imported(text)
    assert len(record.results) == 58


def test_control_characters_do_not_come_to_the_terminal(
    home: Path, tmp_path: Path, nccl_table: Callable[[int], str], capsys: pytest.CaptureFixture[str]
) -> None:
    text = nccl_table(1).replace(" 0.00 ", " \x07\x9b31m ")
    (tmp_path / "a.log").write_text(text + "Killed \x1b[31m\x08 by \x01\n")
    main(["import", str(tmp_path / "a.log")])
    printed = capsys.readouterr()
    assert "damaged" in printed.out
    assert all(letter.isprintable() for letter in (printed.out + printed.err).replace("\n", ""))


def test_what_cannot_be_told_comes_with_its_findings(
    home: Path,
    tmp_path: Path,
    tool_tables: dict[str, Callable[[int], str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = tool_tables["osu"](1)
    path = tmp_path / "a.log"
    path.write_text(tool_tables["imb"](1) + table + "1048576    12.5    7\n")
    assert main(["import", str(path)]) == 3
    printed = capsys.readouterr()
    assert f"error: {path}: table 2: cannot determine the number of ranks of the table in line" in printed.err
    assert "damaged: not a whole row (3 of 2 fields)" in printed.out


def test_a_report_of_somebody_else_is_not_taken_apart(read: Callable[..., Reading]) -> None:
    trace = b'{"traceEvents": [' + b'{"name": "ncclKernel"},' * 100_000
    assert read(trace).tables == ()
    assert not read(trace).is_log


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--ranks", "0"], "error: --ranks 0 is too small\nhint: give 1 or more"),
        (["--nodes", "-2"], "error: --nodes -2 is too small"),
        (["--table", "7"], "a.log: it has 1 table, but --table is 7"),
        (["--format", "osu"], "error: no table of osu in "),
    ],
)
def test_what_does_not_fit_the_log_is_said(
    arguments: list[str],
    error: str,
    home: Path,
    tmp_path: Path,
    nccl_table: Callable[[int], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "a.log").write_text(nccl_table(1))
    assert main(["import", str(tmp_path / "a.log"), *arguments]) == 2
    assert error in capsys.readouterr().err
    assert not home.exists()


def test_an_operation_of_nobody_is_named(
    nccl_table: Callable[[int], str], imported: Callable[..., list[RunRecord]]
) -> None:
    (record,) = imported(nccl_table(1), op="all_redcue")
    assert "busbw does not know the operation all_redcue" in record.source.findings[0].text
    (record,) = imported(nccl_table(1), op="all_reduce")
    assert record.source.findings == ()


def test_a_name_that_no_terminal_prints(
    home: Path,
    tmp_path: Path,
    nccl_table: Callable[[int], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = os.fsencode(tmp_path) + b"/n\xe9.log"
    with open(path, "w") as file:  # noqa: PTH123 (a name in bytes)
        file.write(nccl_table(1))
    printed = io.TextIOWrapper(io.BytesIO(), "utf-8", "strict")
    monkeypatch.setattr("sys.stdout", printed)
    assert main(["import", str(tmp_path)]) == 0
    printed.seek(0)
    assert "/n\ufffd.log:" in printed.read()
    (folder,) = run_folders(home)
    source = read_record(folder).source
    assert source is not None
    assert source.path.encode() == os.fsencode(tmp_path) + b"/n\xef\xbf\xbd.log"
