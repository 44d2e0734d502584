"""Published tables import to what size and time give, and to the ranks that busbw / algbw gives."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw.cli.import_logs import import_logs
from busbw.errors import UndecidedError
from busbw.importers.assemble import Origin, assemble
from busbw.importers.check import check
from busbw.importers.decide import Given
from busbw.importers.files import Reading, read_file
from busbw.importers.settings import ImportSettings
from busbw.importers.solve import factor, ranks_of
from busbw.model.collective import Placement
from busbw.model.record import RunRecord


def kinds(record: RunRecord) -> list[str]:
    return [finding.kind for finding in record.source.findings]


def test_numbers_follow_from_size_and_time(published: Any, imported: Callable[..., list[RunRecord]]) -> None:
    (record,) = imported(published.text())
    printed = [row.split() for row in published.rows]
    assert len(record.results) == 2 * len(printed)
    for index, cells in enumerate(printed):
        for side, placement in enumerate(Placement):
            case, result = record.plan.cases[2 * index + side], record.results[2 * index + side]
            time_us, algbw, busbw, wrong = cells[5 + 4 * side : 9 + 4 * side]
            size = int(cells[0])
            assert (case.collective, case.op, case.dtype, case.placement) == (
                "all_reduce",
                "sum",
                "float",
                placement,
            )
            assert (case.size_bytes, case.count, result.wrong) == (size, int(cells[1]), int(wrong))
            assert result.time_ns == pytest.approx(float(time_us) * 1e3, rel=1e-12)
            expected = size / (float(time_us) * 1e3)
            assert result.algbw_gb_per_s == pytest.approx(expected, rel=1e-12)
            factor_of_ranks = 2 * (published.ranks - 1) / published.ranks
            assert result.busbw_gb_per_s == pytest.approx(expected * factor_of_ranks, rel=1e-12)
            # What was printed is the same but for its rounding.
            assert result.algbw_gb_per_s == pytest.approx(float(algbw), abs=0.02)
            assert result.busbw_gb_per_s == pytest.approx(float(busbw), abs=0.04)


def test_ranks_are_those_of_the_rows(published: Any, imported: Callable[..., list[RunRecord]]) -> None:
    (record,) = imported(published.text())
    assert record.world.size == published.ranks
    mislabelled = published.label is not None and published.label != published.ranks
    assert ("mislabelled" in kinds(record)) is mislabelled
    assert ("rows-missing" in kinds(record)) is not published.average_fits
    assert ("no-end" in kinds(record)) is not published.average


@pytest.mark.parametrize(
    ("name", "label", "ranks"),
    [("H100 SHARP labelled 64", 64, 96), ("GB200 two racks labelled 144", 144, 128)],
)
def test_the_two_mislabelled_tables_are_named(
    name: str,
    label: int,
    ranks: int | None,
    published_by_name: dict[str, Any],
    imported: Callable[..., list[RunRecord]],
) -> None:
    (record,) = imported(published_by_name[name].text())
    (finding,) = [finding for finding in record.source.findings if finding.kind == "mislabelled"]
    assert finding.text == f"{label} ranks by header, but the rows are those of {ranks} ranks"
    assert record.source.header["ranks_by_header"] == label  # kept, though it lost


def test_the_users_ranks_are_taken_and_the_rows_against_them_said(
    published_by_name: dict[str, Any], imported: Callable[..., list[RunRecord]]
) -> None:
    (record,) = imported(published_by_name["p4de 25 MiB"].text(), ranks=8)
    assert record.world.size == 8
    assert [f.text for f in record.source.findings] == [
        "--ranks 8 was taken, but the rows are those of 16 ranks"
    ]


def test_many_ranks_are_an_interval(published_by_name: dict[str, Any], read: Callable[..., Reading]) -> None:
    (table,) = read(published_by_name["GB200 twenty racks"].text()).tables
    checked = check(table)
    interval = ranks_of("all_reduce", factor(checked.table, checked.gb))
    assert str(interval) == "1422 to 1470"
    assert interval.only is None


def test_an_excerpt_prints_another_average(
    published_by_name: dict[str, Any], imported: Callable[..., list[RunRecord]]
) -> None:
    (record,) = imported(published_by_name["p5 2x8 excerpt"].text())
    (finding,) = [finding for finding in record.source.findings if finding.kind == "rows-missing"]
    assert "52.9753" in finding.text
    assert "208.678" in finding.text


@pytest.mark.skipif("BUSBW_PUBLISHED_LOGS" not in os.environ, reason="BUSBW_PUBLISHED_LOGS names no folder")
def test_every_published_log() -> None:
    """A folder of logs with INDEX.tsv, whose column ranks_from_ratio is a number or an interval."""
    folder = Path(os.environ["BUSBW_PUBLISHED_LOGS"])
    names, *lines = [line.split("\t") for line in (folder / "INDEX.tsv").read_text().splitlines()]
    checked_files = 0
    for cells in lines:
        row = dict(zip(names, cells, strict=False))
        wanted = row["ranks_from_ratio"].split()[0]
        if not wanted[0].isdigit():
            continue
        (table,) = read_file(folder / row["file"]).tables
        checked = check(table)
        assert len(checked.table) == len(table)  # no row is damaged
        interval = ranks_of("all_reduce", factor(checked.table, checked.gb))
        low, _, high = wanted.partition("-")
        if high:
            assert int(low) <= interval.low <= interval.high <= int(high)
        else:
            assert interval.only == int(wanted)
        checked_files += 1
    assert checked_files >= 9


@pytest.mark.skipif("BUSBW_PUBLISHED_LOGS" not in os.environ, reason="BUSBW_PUBLISHED_LOGS names no folder")
def test_labels_of_published_logs_that_their_rows_contradict() -> None:
    """The column ranks_label is the word of whoever published a log, be it in the log or beside it."""
    folder = Path(os.environ["BUSBW_PUBLISHED_LOGS"])
    names, *lines = [line.split("\t") for line in (folder / "INDEX.tsv").read_text().splitlines()]
    mislabelled = {}
    for cells in lines:
        row = dict(zip(names, cells, strict=False))
        label = row["ranks_label"].split()[0]
        if not label.isdigit():
            continue
        reading = read_file(folder / row["file"])
        origin = Origin(str(folder / row["file"]), log_lines=reading.lines, labels={"ranks": label})
        record = assemble(reading.tables[0], origin, Given(), "run")
        if "mislabelled" in kinds(record):
            mislabelled[int(label)] = record.world.size
        else:
            assert record.world.size == int(label)
    assert mislabelled == {64: 96, 144: 128}


def numbers_in(path: Path) -> list[list[str]]:
    """The rows of a published file, by the words of its lines: read here without the importer."""
    lines = [
        re.sub(r"^\s*(?:\d+: |\[\d+,\d+\]<stdout>:)", "", line) for line in path.read_text().splitlines()
    ]
    return [words for line in lines if len(words := line.split()) >= 6 and words[0].isdigit()]


def imported_as(path: Path, number: int, table: Any, givens: tuple[Given, ...]) -> RunRecord:
    """The record of a table with the first of the answers that its rows do not deny."""
    for given in givens:
        try:
            record = assemble(table, Origin(str(path), table=number), given, "run")
        except UndecidedError:
            continue
        if "overridden" not in kinds(record):
            return record
    raise AssertionError(f"table {number} of {path} was not imported")


@pytest.mark.skipif("BUSBW_PUBLISHED_LOGS" not in os.environ, reason="BUSBW_PUBLISHED_LOGS names no folder")
def test_every_published_file_imports_to_its_own_numbers() -> None:
    """All rows of all files, of nccom-test too, whose tables say neither operation nor ranks."""
    folder = Path(os.environ["BUSBW_PUBLISHED_LOGS"])
    rows = 0
    for path in sorted(path for path in folder.iterdir() if path.suffix in (".log", ".txt")):
        reading, printed = read_file(path), numbers_in(path)
        records = []
        for number, table in reading.numbered:
            names = ("all_reduce", "all_gather") if table.tool == "nccom-test" else ("",)
            givens = tuple(Given(name, ranks) for name in names for ranks in (None, 32))
            records.append(imported_as(path, number, table, givens))
        assert sum(len(table) for table in reading.tables) == len(printed)
        found = [
            (case, result)
            for record in records
            for case, result in zip(record.plan.cases, record.results, strict=True)
            if case.placement is Placement.OUT_OF_PLACE
        ]
        for words, (case, result) in zip(printed, found, strict=True):
            size, time = int(words[0]), float(words[5] if "-1" in words else words[time_of(words)])
            assert (case.size_bytes, result.time_ns) == (size, pytest.approx(time * 1e3, rel=1e-12))
            assert result.algbw_gb_per_s == pytest.approx(size / time / 1e3, rel=1e-12)
            rows += 1
    assert rows >= 29 + 32 + 7 + 39 + 20


def time_of(words: list[str]) -> int:
    """Where nccom-test has its first time: behind the type."""
    return next(at for at, word in enumerate(words) if not word[0].isdigit()) + 1


@pytest.mark.skipif("BUSBW_PUBLISHED_LOGS" not in os.environ, reason="BUSBW_PUBLISHED_LOGS names no folder")
def test_the_command_names_the_mislabelled_logs_of_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path))
    import_logs((os.environ["BUSBW_PUBLISHED_LOGS"],), ImportSettings())
    said = [line for line in capsys.readouterr().out.splitlines() if "INDEX.tsv" in line]
    assert ["64 ranks by INDEX.tsv, but the rows are those of 96 ranks" in line for line in said] == [
        False,
        True,
    ]
    assert "144 ranks by INDEX.tsv, but the rows are those of 128 ranks" in said[0]
