"""Tables that are too long for one run come in parts; the text of a record is made of columns."""

import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from busbw.cli.import_logs import import_logs
from busbw.importers.assemble import Origin, assembled
from busbw.importers.decide import Given
from busbw.importers.files import Reading, read_stream, read_stream_parts
from busbw.importers.settings import ImportSettings
from busbw.record.folder import run_folders
from busbw.record.write import RowTexts, record_text

ROWS = 120_000


@pytest.fixture(scope="module")
def long_table(new_heading: str, row_text: Callable[[str], str]) -> bytes:
    """One table of many sweeps, as of a test that never ends."""
    sizes = [8 << number for number in range(30)]
    lines, total = [], 0.0
    for size in sizes:
        time = f"{20 + size / 250e3:.0f}"
        algbw = size / float(time) / 1e3
        total += float(f"{algbw * 1.875:.2f}")
        side = f"{time} {algbw:.2f} {algbw * 1.875:.2f} 0"
        lines.append(row_text(f"{size} {size // 4} float sum -1 {side} {side}") + "\n")
    body = "".join(lines) * (ROWS // len(sizes))
    end = f"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {total / len(sizes):g} \n"
    return f"# Collective test starting: all_reduce_perf\n{new_heading}{body}{end}".encode()


def parts_of(text: bytes) -> list[Reading]:
    return list(read_stream_parts(io.BytesIO(text), "-"))


def test_a_long_table_comes_in_parts(long_table: bytes) -> None:
    (whole,) = read_stream(io.BytesIO(long_table), "-").tables
    assert (len(whole), whole.part, whole.findings) == (ROWS, 1, ())
    tables = [table for reading in parts_of(long_table) for table in reading.tables]
    assert len(tables) > 2
    assert max(map(len, tables)) < 70_000
    assert [table.part for table in tables] == list(range(1, len(tables) + 1))
    assert [line for table in tables for line in table.lines.tolist()] == whole.lines.tolist()
    assert [size for table in tables for size in table.sizes.tolist()] == whole.sizes.tolist()
    assert {number for reading in parts_of(long_table) for number, _ in reading.numbered} == {1}
    assert [table.average is not None for table in tables] == [False] * (len(tables) - 1) + [True]
    assert all([finding.kind for finding in table.findings] == ["part"] for table in tables)


@pytest.mark.parametrize("changed", [False, True])
def test_the_average_is_that_of_all_parts(changed: bool, long_table: bytes) -> None:
    if changed:  # one row of the first part is missing
        long_table = long_table.replace(b"\n  4294967296", b"\n# 4294967296", 1)
        long_table = long_table.replace(b"\n   268435456", b"\n# 268435456", 5000)
    *_, last = [table for reading in parts_of(long_table) for table in reading.tables]
    head = assembled(last, Origin("-"), Given(), "run").head
    assert ("rows-missing" in [finding.kind for finding in head.source.findings]) == changed


def test_parts_become_runs(
    long_table: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path / "runs"))
    monkeypatch.setattr("busbw.importers.contents._LONGEST_TABLE", 5000)
    lines = long_table.splitlines(keepends=True)
    head, end = b"".join(lines[:4]), b"".join(lines[-2:])
    path = tmp_path / "log"
    path.write_bytes(head + b"".join(lines[4 : 4 + 30_000]) + end + head + b"".join(lines[4 : 4 + 30]) + end)
    import_logs((str(path),), ImportSettings())
    folders = run_folders(tmp_path / "runs")
    records = [json.loads((folder / "run.json").read_text()) for folder in folders]
    assert min(len(record["results"]) for record in records) == 2 * 30
    assert sum(len(record["results"]) for record in records) == 2 * 30_030
    assert sorted(record["source"]["table"] for record in records) == [1, 1, 2]
    assert {record["world"]["size"] for record in records} == {16}
    assert {record["run_id"] for record in records} == {folder.name for folder in folders}
    printed = capsys.readouterr().out
    assert "part 2 of a table that is too long for one run" in printed


def test_tables_behind_an_open_one_do_not_wait_forever(
    new_heading: str, row_text: Callable[[str], str]
) -> None:
    """Stream 1 begins a table and says no more, while stream 0 goes on."""
    row = row_text("1048576 262144 float sum -1 100.0 10.49 18.35 0 101.0 10.38 18.17 0")
    head = [f"{stream}: {line}" for stream in (1, 0) for line in new_heading.splitlines()]
    table = "\n".join([*head[3:], *[f"0: {row}"] * 2000, "0: # Avg bus bandwidth    : 18.26", ""])
    begin = "\n".join([*head[:3], f"1: {row}", ""])
    text = begin + table * 150
    parts = parts_of(text.encode())
    assert len(parts) > 1
    assert max(sum(map(len, part.tables)) for part in parts) < 260_000
    tables = [table for part in parts for table in part.tables]
    assert sum(map(len, tables)) == 150 * 2000 + 1
    numbers = [number for part in parts for number, table in part.numbered if table.part == 1]
    assert numbers == sorted(set(numbers))


MEMORY = """
import resource, sys
from busbw.importers.files import read_stream_parts
from busbw.importers.ordinary import check_all

def chunks():
    yield HEAD
    for _ in range(int(sys.argv[1])):
        yield ROWS

class Stream:
    def __init__(self): self.rest, self.more = b"", chunks()
    def read(self, size):
        while len(self.rest) < size and (piece := next(self.more, None)) is not None:
            self.rest += piece
        taken, self.rest = self.rest[:size], self.rest[size:]
        return taken

rows = sum(len(c.table) for part in read_stream_parts(Stream(), "-") for c in check_all(part.tables))
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_log(long_table: bytes) -> None:
    """Four times as many rows of one table take no more memory: 400 bytes a row were 100 MB here."""
    lines = long_table.splitlines(keepends=True)
    head, rows = b"".join(lines[:4]), b"".join(lines[4 : 4 + 3000])
    script = f"HEAD, ROWS = {head!r}, {rows!r}\n" + MEMORY
    found = []
    for times in (30, 120):
        done = subprocess.run(
            [sys.executable, "-", str(times)], input=script, capture_output=True, text=True, check=True
        )
        count, peak = map(int, done.stdout.split())
        assert count == 3000 * times
        found.append(peak)
    assert found[1] < found[0] + 30 * 1024  # KiB


def texts_and_values(table: Callable[[int], str], damage: str) -> Iterator[tuple[str, str]]:
    """The record of each table as it is written from columns, and as it is from values."""
    text = "".join(map(table, range(3)))
    for old, new in [pair.split("=>") for pair in damage.split("|") if pair]:
        text = text.replace(old, new, 1)
    given = Given("all_reduce", None if "algbw" in text else 16)
    for read in read_stream(io.BytesIO(text.encode()), "a.log").tables:
        made = assembled(read, Origin("a.log", created="2026-11-22"), given, "run")
        record = made.record()
        rows = RowTexts(made.rows.case_texts(), made.rows.result_texts())
        head = replace(made.head, run_id="run")
        yield "".join(record_text(head, rows)), "".join(record_text(record))


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "      0=>      3",  # wrong elements
        "      0=>    N/A",
        "   20.3=>    nan",
        " float=>  half",
    ],
)
def test_text_from_columns_is_the_text_of_values(damage: str, tool_table: Callable[[int], str]) -> None:
    compared = list(texts_and_values(tool_table, damage))
    assert len(compared) == 3
    for from_columns, from_values in compared:
        assert from_columns == from_values
    assert len(set(chain.from_iterable(compared))) == 3
