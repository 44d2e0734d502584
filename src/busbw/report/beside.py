"""What neighbours did to collectives (--beside), as lines: a row a case, and the answer. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from busbw.judge.beside import Judged, judged
from busbw.model.case import Case
from busbw.model.plan import Plan
from busbw.model.result import CaseResult
from busbw.report import curves
from busbw.report.plots import Plot, Table
from busbw.stats.interval import Estimate
from busbw.units import counted, format_number, format_size, format_time

_HEAD: Final[tuple[str, ...]] = ("case", "alone", "beside", "times as long", "left %", "sum")
# The impact factors of congestion tests: the neighbour makes the case take so many times as long.
_HEAD_OF_OPERATIONS: Final = ("case", "alone", "beside", "mean", "median", "p99", "during %")
_COLUMNS: Final = 98  # behind "# "
_SUM: Final = "left: the neighbour's work beside the collective / by itself; sum: 1 / times as long + left"
_DURING: Final = (
    "mean, median, p99: times as long as alone; during: share of that time with the neighbour under way"
)
_SCALE: Final = "sum 2.00 is an ideal overlap, 1.00 is what taking turns would give"


def lines(plan: Plan, results: Sequence[CaseResult]) -> list[str]:
    """A table and an answer for every neighbour; nothing where none ran."""
    found = judged(plan, results)
    text = [line for own in found for line in ("", *_of_neighbour(own))]
    if any(each.left is not None for own in found for each in own):
        text += ["", _SUM, _SCALE]
    if any(not own[0].beside.unit for own in found):
        text += ["", _DURING]
    return [f"# {line}".rstrip() for line in text]


def answer(found: Sequence[Judged]) -> str:
    """Of one neighbour: the case that suffers most, and how many do."""
    slower = [each for each in found if each.is_slower]
    worst = max(slower or found, key=lambda each: each.time.median)
    left = "" if worst.left is None else f" and leaves {100 * worst.left.median:.0f} % of the {_work(worst)}"
    takes = f"{_name(worst.case)} takes {_interval(worst.time)} times as long{left}"
    text = f"beside {worst.beside.what} {takes}"
    if worst.typical is not None and not worst.beside.unit:  # two operations
        text = f"beside {worst.beside.what}: {takes}, {_interval(worst.typical)} at the median"
    return text if len(found) == 1 else f"{text}; slower in {len(slower)} of {counted(len(found), 'case')}"


def plot_beside(of: tuple[str, ...], title: str, found: Sequence[Sequence[Judged]]) -> Plot:
    """Both ratios against size, of cases that have one."""
    rows = [
        curves.row(f"{label} {each.beside.what}", each.case.size_bytes, ratio.median, ends, _interval(ratio))
        for own in found
        for each in own
        for label, ratio in (("time beside", each.time), ("left of", each.left))
        if ratio is not None and each.case.size_bytes
        for ends in [(ratio.low, ratio.high) if ratio.attained else (None, None)]
    ]
    cells = tuple((*_row(each)[:1], each.beside.what, *_row(each)[1:]) for own in found for each in own)
    table = Table((_HEAD[0], "neighbour", *_HEAD[1:]), cells, keys=2, notes=(f"{_SUM}; {_SCALE}.",))
    note = "In turn alone and beside the neighbour; 1 is as alone."
    words = {"x": "size", "y": "beside / alone"}
    return Plot("curve", of, "beside", title, note, tuple(rows), table, words)


def _of_neighbour(found: Sequence[Judged]) -> Iterator[str]:
    first = found[0].beside
    rates = [rate for each in found for rate in each.beside.work_alone]
    alone = f"; by itself {format_number(median(rates))} {first.unit} a rank" if any(rates) else ""
    yield from textwrap.wrap(f"beside {first.what}: {first.how}{alone}", _COLUMNS, subsequent_indent="  ")
    yield from _table(found)
    yield from textwrap.wrap(answer(found), _COLUMNS, subsequent_indent="  ")


def _table(found: Sequence[Judged]) -> Iterator[str]:
    clocks = any(each.beside.clocks_mhz for each in found)
    is_load = bool(found[0].beside.unit)
    rows = [_HEAD, *map(_row, found)] if is_load else [_HEAD_OF_OPERATIONS, *map(_row_of_operation, found)]
    if clocks:
        rows = [(*row, end) for row, end in zip(rows, ("clock MHz", *map(_clocks, found)), strict=True)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))


def _row(each: Judged) -> tuple[str, ...]:
    alone, beside = median(each.beside.alone_ns), median(each.beside.beside_ns)
    left = "n/a" if each.left is None else _interval(each.left, 100)
    total = "n/a" if each.work_sum is None else f"{each.work_sum:.2f}"
    times = format_time(alone), format_time(beside)
    return (_name(each.case), *times, _interval(each.time), left, total)


def _row_of_operation(each: Judged) -> tuple[str, ...]:
    alone, beside = median(each.beside.alone_ns), median(each.beside.beside_ns)
    typical = "n/a" if each.typical is None else _interval(each.typical)
    p99 = "n/a" if each.p99 is None else "{} ({}-{})".format(*map(_factor, each.p99))
    share = f"{100 * median(each.beside.work_beside):.0f}"
    times = format_time(alone), format_time(beside)
    return (_name(each.case), *times, _interval(each.time), typical, p99, share)


def _interval(found: Estimate, scale: int = 1) -> str:
    """``1.31 (1.28-1.34)``; of too few rounds without an interval."""
    values = (scale * each for each in (found.median, found.low, found.high))
    value, low, high = map(_factor, values) if scale == 1 else (f"{each:.0f}" for each in values)
    return f"{value} ({low}-{high})" if found.attained else f"{value} (n/a)"


def _factor(value: float) -> str:
    """With three digits, at most two of them decimals."""
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


def _clocks(each: Judged) -> str:
    """Alone, and beside the neighbour."""
    return " > ".join(map(str, each.beside.clocks_mhz)) or "n/a"


def _work(each: Judged) -> str:
    return "memory bandwidth" if each.beside.unit == "GB/s" else "compute"


def _name(case: Case) -> str:
    return f"{case.collective} {format_size(case.size_bytes)}" if case.row.sized else case.collective
