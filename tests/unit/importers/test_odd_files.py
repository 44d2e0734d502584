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
from busbw.importers.files import Reading, read_file
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
    "a container's log file": lambda text: with_prefix(
        text, "2026-11-21T18:00:00.123456789Z stdout F "
    ).encode(),
    "torchrun": lambda text: with_prefix(text, "[default0]:").encode(),
    "torchrun, ranks": lambda text: with_prefix(text, "[rank0]: ").encode(),
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


def test_utf_16_may_be_cut_and_long(nccl_table: Callable[[int], str], read: Callable[..., Reading]) -> None:
    text = "".join(map(nccl_table, range(40))).encode("utf-16")
    reading = read(text[: len(text) // 4 * 2 + 1])
    assert 15 < len(reading.tables) <= 20
    assert all(len(table) == 29 for table in reading.tables[:-1])


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
    assert read_file(path).sha256 == ""  # files of gigabytes are not read to the end for nothing


def test_compressed_on_standard_input(
    home: Path, nccl_table: Callable[[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = gzip.compress(nccl_table(1).encode())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert main(["import", "-"]) == 0
    assert len(run_folders(home)) == 1


@pytest.mark.parametrize("prefix", ["> ", "launcher-1  | ", "out.log:", "[INFO] ", "[node1:1234] "])
def test_a_heading_behind_an_unknown_prefix_is_named(
    prefix: str,
    home: Path,
    tmp_path: Path,
    tool_tables: dict[str, Callable[[int], str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "a.log").write_text(with_prefix(tool_tables["nccl-tests"](1), prefix))
    assert main(["import", str(tmp_path / "a.log")]) == 2
    out = capsys.readouterr().out
    assert (
        f"no-heading: a heading of nccl-tests behind {prefix!r}, which is no prefix that busbw knows" in out
    )


def test_rows_that_were_copied_are_named(
    home: Path, tmp_path: Path, nccl_table: Callable[[int], str], capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = tmp_path / "a.log", tmp_path / "b.log"
    one.write_text(nccl_table(1) + nccl_table(2))
    other.write_text(nccl_table(3) + nccl_table(2))
    assert main(["import", str(one), str(other)]) == 0
    copies = [line for line in capsys.readouterr().out.splitlines() if " copy: " in line]
    tables = [table.first_line for path in (one, other) for table in read_file(path).tables]
    assert copies == [f"#   {other}:{tables[3]}: copy: its rows are those of {one}:{tables[1]}"]


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
    assert f"error: {path}: table 2: cannot tell the number of ranks of the table in line" in printed.err
    assert "damaged: not a whole row (3 of 2 fields)" in printed.out


def test_a_report_of_somebody_else_is_not_taken_apart(read: Callable[..., Reading]) -> None:
    trace = b'{"traceEvents": [' + b'{"name": "ncclKernel"},' * 100_000
    assert read(trace).tables == ()
    assert not read(trace).is_log


def test_sizes_in_an_order_of_no_tool_are_named(
    nccl_table: Callable[[int], str], imported: Callable[..., list[RunRecord]]
) -> None:
    """Rows of two jobs that wrote into one file at the same time."""
    lines = [nccl_table(number).splitlines(keepends=True) for number in (1, 2)]
    first, other = (
        [line for line in each if line.split()[:1] and line.split()[0].isdigit()] for each in lines
    )
    begin = lines[0].index(first[0])
    both = [row for pair in zip(other[:20], first[5:25], strict=True) for row in pair]
    (record,) = imported("".join([*lines[0][:begin], *first[:5], *both]), op="all_reduce")
    found = {finding.kind: finding for finding in record.source.findings}
    assert found["order"].text.startswith("sizes go down, here to 16 B")
    (again,) = imported("".join([*lines[0][:begin], *first, *first]), op="all_reduce")
    assert "order" not in {finding.kind for finding in again.source.findings}  # a second sweep


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--ranks", "0"], "error: --ranks is 0\nhint: give --ranks a number from 1 on"),
        (["--nodes", "-2"], "error: --nodes is -2"),
        (["--table", "7"], "a.log: tables in it: 1, and --table is 7"),
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
    assert "--op all_redcue is no operation that busbw knows" in record.source.findings[0].text
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
