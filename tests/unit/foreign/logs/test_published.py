"""Published tables import to what size and time give, and to the ranks that busbw / algbw gives."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from busbw.errors import UndecidedError
from busbw.foreign.logs.assemble import Origin, assemble
from busbw.foreign.logs.check import check
from busbw.foreign.logs.decide import Given
from busbw.foreign.logs.solve import factor, ranks_of
from busbw.foreign.read_any import Reading, read_file
from busbw.model.collective import Placement
from busbw.model.record import RunRecord


def kinds(record: RunRecord) -> list[str]:
    return [finding.kind for finding in record.source.findings]


def test_numbers_have_all_printed_digits(published: Any, imported: Callable[..., list[RunRecord]]) -> None:
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
            factor = 2 * (published.ranks - 1) / published.ranks
            # What is printed to more digits is kept, all else follows from size and time.
            half_time = 0.5 * 10.0 ** -len(time_us.partition(".")[2]) / float(time_us)
            for value, own, word in (
                (result.algbw_gb_per_s, expected, algbw),
                (result.busbw_gb_per_s, expected * factor, busbw),
            ):
                is_finer = half_time * own > 0.005 or abs(float(word) - own) > 0.005
                assert value == pytest.approx(float(word) if is_finer else own, rel=1e-12)
                assert value == pytest.approx(float(word), abs=0.0051)


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
    assert finding.text == f"the header says {label} ranks, but the rows fit {ranks} only"
    assert record.source.header["ranks_by_header"] == label  # kept, though it lost


def test_the_users_ranks_are_taken_and_the_rows_against_them_said(
    published_by_name: dict[str, Any], imported: Callable[..., list[RunRecord]]
) -> None:
    (record,) = imported(published_by_name["p4de 25 MiB"].text(), ranks=8)
    assert record.world.size == 8
    assert [f.text for f in record.source.findings] == ["--ranks 8 was taken, but the rows fit 16 ranks only"]


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
        for number, table in enumerate(reading.tables, 1):
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
            # As printed, where the value made from size and time would print as another one.
            assert result.algbw_gb_per_s == pytest.approx(size / time / 1e3, rel=0.011)
            rows += 1
    assert rows >= 29 + 32 + 7 + 39 + 20


def time_of(words: list[str]) -> int:
    """Where nccom-test has its first time: behind the type."""
    return next(at for at, word in enumerate(words) if not word[0].isdigit()) + 1
