"""What neighbours did to collectives (--beside), as lines: a row a case, and the answer. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from busbw.judge.beside import Judged, judged
from busbw.model.case import Case
from busbw.model.mark import LEAST_OVERLAP, PART_ALONE
from busbw.model.plan import Plan
from busbw.model.result import CaseResult
from busbw.report import curves
from busbw.report.fields import aligned
from busbw.report.plots import Plot, Table
from busbw.stats.interval import Estimate
from busbw.units import counted, format_number, format_size, format_time

_HEAD: Final[tuple[str, ...]] = ("case", "alone", "beside", "mean", "median")
_OF_LOADS: Final = ("left %", "sum")
_OF_OPERATIONS: Final = ("p99", "during %")  # p99: the third impact factor of congestion tests
_COLUMNS: Final = 98  # behind "# "
_TIMES: Final = (
    "alone, beside: mean time of a call (the table of results has medians); mean, median: times as long as"
    " alone"
)
_SUM: Final = "left: the neighbour's work beside the collective / by itself; sum: 1 / mean + left"
_SCALE: Final = "sum 2.00 is an ideal overlap, 1.00 is what taking turns would give"
_DURING: Final = (
    "p99: as mean and median; during: share of the time beside with the neighbour under way, below"
    f" {100 * LEAST_OVERLAP:.0f} % the row is {PART_ALONE}"
)


def lines(plan: Plan, results: Sequence[CaseResult]) -> list[str]:
    """A table and an answer for every neighbour; nothing where none ran."""
    found = judged(plan, results)
    text = [line for own in found for line in ("", *_of_neighbour(own))]
    if found:
        notes = dict.fromkeys(note for own in found for note in _notes(own))
        text += ["", *(line for note in notes for line in textwrap.wrap(note, _COLUMNS))]
    return [f"# {line}".rstrip() for line in text]


def answer(found: Sequence[Judged]) -> str:
    """Of one neighbour: the case that suffers most, and how many do. Cases of no bytes are left out."""
    moving = [each for each in found if each.case.size_bytes or not each.case.row.sized] or found
    decided = [each for each in moving if each.time.attained]
    where = f"beside {found[0].beside.what}"
    if not decided:
        return f"{where}: too few rounds to say: raise --case-time"
    slower = [each for each in decided if each.is_slower]
    text = f"{where}: {_of_worst(max(slower or decided, key=lambda each: each.time.median))}"
    if len(moving) > 1:
        text += f"; slower in {len(slower)} of {counted(len(moving), 'case')}"
    undecided = len(moving) - len(decided)
    return f"{text}, {undecided} with too few rounds to say" if undecided else text


def _of_worst(worst: Judged) -> str:
    text = f"{_name(worst.case)} takes {_interval(worst.time)} times as long"
    text += "" if worst.typical is None else f", {_interval(worst.typical)} at the median"
    text += (
        "" if worst.left is None else f", and leaves {100 * worst.left.median:.0f} % of the {_work(worst)}"
    )
    return text + (f", {PART_ALONE}" if worst.is_part_alone else "")


def plot_beside(of: tuple[str, ...], title: str, found: Sequence[Sequence[Judged]]) -> Plot:
    """Both ratios against size, of cases that have one; of loads, or of operations."""
    rows = [
        curves.row(f"{label} {each.beside.what}", each.case.size_bytes, ratio.median, ends, _interval(ratio))
        for own in found
        for each in own
        for label, ratio in (("time beside", each.time), ("left of", each.left))
        if ratio is not None and each.case.size_bytes
        for ends in [(ratio.low, ratio.high) if ratio.attained else (None, None)]
    ]
    first, *head = _head(found[0])
    cells = tuple((_row(each)[0], each.beside.what, *_row(each)[1:]) for own in found for each in own)
    notes = (*map(answer, found), *_notes(found[0]))
    table = Table((first, "neighbour", *head), cells, keys=2, notes=notes)
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


def _table(found: Sequence[Judged]) -> list[str]:
    rows = [_head(found), *map(_row, found)]
    if any(each.beside.clocks_mhz for each in found):
        rows = [(*row, end) for row, end in zip(rows, ("clock MHz", *map(_clocks, found)), strict=True)]
    return aligned(rows, range(len(rows[0])))


def _head(found: Sequence[Judged]) -> tuple[str, ...]:
    return (*_HEAD, *(_OF_LOADS if found[0].beside.unit else _OF_OPERATIONS))


def _notes(found: Sequence[Judged]) -> tuple[str, ...]:
    """What the columns are."""
    return (_TIMES, _SUM, _SCALE) if found[0].beside.unit else (_TIMES, _DURING)


def _row(each: Judged) -> tuple[str, ...]:
    times = (format_time(median(own)) for own in (each.beside.alone_ns, each.beside.beside_ns))
    typical = "n/a" if each.typical is None else _interval(each.typical)
    return (_name(each.case), *times, _interval(each.time), typical, *_last(each))


def _last(each: Judged) -> tuple[str, str]:
    """What only loads have, or only operations."""
    if each.beside.unit:
        left = "n/a" if each.left is None else _interval(each.left, 100)
        return left, "n/a" if each.work_sum is None else f"{each.work_sum:.2f}"
    p99 = "n/a" if each.p99 is None else "{} ({}-{})".format(*map(_factor, each.p99))
    return p99, f"{100 * each.during:.0f}" + (f" {PART_ALONE}" if each.is_part_alone else "")


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
