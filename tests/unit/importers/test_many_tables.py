"""Logs of many tables: what is done for all of them together is what would be done for each."""

import io
import json
import random
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from busbw.cli.import_logs import import_logs
from busbw.importers.check import Checked, check
from busbw.importers.files import Reading, read_file, read_file_parts, read_stream_parts
from busbw.importers.ordinary import check_all
from busbw.importers.settings import ImportSettings
from busbw.importers.solve import factor
from busbw.record.folder import run_folders
from busbw.record.read import read_record

TABLES = 40
RANKS = 16


@pytest.fixture
def table_text(new_heading: str, row_text: Callable[[str], str]) -> Callable[[int], str]:
    """A table of all_reduce, whole and in order; another one for every number."""

    def text(number: int) -> str:
        rng = random.Random(number)
        rows = []
        for power in range(3, 3 + 29):
            sides = []
            for _ in range(2):
                time = rng.uniform(20, 30) + 2**power / 250e3
                shown = f"{time:.2f}" if time < 100 else f"{time:.1f}" if time < 10**4 else f"{time:.0f}"
                algbw = 2**power / float(shown) / 1e3
                sides.append(f"{shown} {algbw:.2f} {algbw * 2 * (RANKS - 1) / RANKS:.2f} 0")
            rows.append(row_text(f"{2**power} {2**power // 4} float sum -1 {' '.join(sides)}") + "\n")
        head = f"# Collective test starting: all_reduce_perf\n{new_heading}"
        return head + "".join(rows) + "# Out of bounds values : 0 OK\n"

    return text


def shown(checked: Checked) -> str:
    """All that a checked table says, to compare."""
    table = {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in vars(checked.table).items()
        if name != "timings"
    }
    sides = [
        {
            name: np.asarray(value).tolist() if value is not None else None
            for name, value in vars(side).items()
        }
        for side in checked.table.timings
    ]
    return repr((table, sides, checked.scale, checked.gb))


def spoil(rng: random.Random, text: str) -> str:
    """One letter of a row is another one: most often a digit, which leaves a row."""
    lines = text.splitlines(keepends=True)
    at = rng.choice([number for number, line in enumerate(lines) if not line.startswith("#")])
    places = [place for place, letter in enumerate(lines[at]) if letter.isdigit()]
    place = rng.choice(places)
    lines[at] = lines[at][:place] + rng.choice("0123456789.x") + lines[at][place + 1 :]
    return "".join(lines)


@pytest.mark.parametrize("seed", range(8))
def test_tables_are_checked_together_as_one_by_one(
    seed: int, read: Callable[..., Reading], table_text: Callable[[int], str]
) -> None:
    rng = random.Random(seed)
    texts = [table_text(number) for number in range(TABLES)]
    for number in range(0, TABLES, 2):
        texts[number] = spoil(rng, texts[number])
    tables = read("".join(texts)).tables
    assert len(tables) == TABLES
    known = 0
    for table, together in zip(tables, check_all(tables), strict=True):
        alone = check(table)
        assert shown(together) == shown(alone)
        if together.factor is not None:
            known += 1
            assert together.factor == factor(alone.table, alone.gb if alone.scale is not None else None)
    assert known >= TABLES // 2  # they were not all left to ``check``


@pytest.mark.parametrize("least_rows", [1, 100, 10**6])
def test_parts_have_all_tables_in_their_order(
    least_rows: int, tmp_path: Path, table_text: Callable[[int], str]
) -> None:
    path = tmp_path / "log"
    path.write_text("".join(map(table_text, range(TABLES))) * 8)
    assert path.stat().st_size > 2**20  # more than one piece
    parts = list(read_file_parts(path, "", least_rows))
    assert (len(parts) > 1) == (least_rows < 10**6)
    first = 1
    for part in parts:
        assert part.first_table == first
        first += len(part.tables)
    whole = read_file(path)
    found = [table for part in parts for table in part.tables]
    assert [table.lines.tolist() for table in found] == [table.lines.tolist() for table in whole.tables]
    assert [table.sizes.tolist() for table in found] == [table.sizes.tolist() for table in whole.tables]
    assert [part.lines for part in parts] == [0] * (len(parts) - 1) + [whole.lines]


def test_a_table_that_is_open_waits_for_its_end(table_text: Callable[[int], str]) -> None:
    """The second stream's table ends last: the first one's, which began before it, may not overtake it."""
    first, second = table_text(1).splitlines(), table_text(2).splitlines()
    lines = [f"1: {line}" for line in second[:-1]] + [f"0: {line}" for line in first] * 400
    text = "\n".join([*lines, f"1: {second[-1]}"]).encode()
    parts = list(read_stream_parts(io.BytesIO(text), "-", "", 1))
    assert [table.stream for part in parts for table in part.tables] == ["1:"] + ["0:"] * 400


def test_every_table_has_a_folder_of_its_own(
    tmp_path: Path, table_text: Callable[[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path / "runs"))
    names = iter(["a", "a", "b", "b", "c"])  # two bytes of chance are few for thousands in a second
    monkeypatch.setattr("busbw.cli.import_logs.new_run_id", lambda collective: next(names))
    path = tmp_path / "log"
    path.write_text("".join(map(table_text, range(3))))
    import_logs((str(path),), ImportSettings())
    folders = run_folders(tmp_path / "runs")
    assert sorted(folder.name for folder in folders) == ["a", "b", "c"]
    for folder in folders:
        record = read_record(folder)
        assert (record.run_id, len(record.results)) == (folder.name, 2 * 29)
        assert json.loads((folder / "run.json").read_text()) == json.loads(json.dumps(asdict(record)))
