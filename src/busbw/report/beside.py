"""What neighbours did to collectives (--beside), as lines: a row a case, and the answer. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from statistics import median
from typing import Final

from busbw.judge.beside import Judged, judged
from busbw.model.case import Case
from busbw.model.mark import LEAST_OVERLAP, PART_ALONE
from busbw.model.neighbour import Factor
from busbw.model.plan import Plan
from busbw.model.result import CaseResult
from busbw.report import curves
from busbw.report.fields import aligned, folded
from busbw.report.plots import Plot, Table
from busbw.units import counted, format_number, format_size, format_time

_ALWAYS: Final = ("alone", "beside", "mean", "median")
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
    text: list[str] = []
    notes: dict[str, None] = {}
    for found in judged(plan, results):
        first, head = found[0].beside, _head(found)
        rates = [rate for each in found for rate in each.beside.work_alone]
        alone = f"; by itself {format_number(median(rates))} {first.unit} a rank" if any(rates) else ""
        text += ["", *folded(f"beside {first.what}: {first.how}{alone}", _COLUMNS, rest="  ")]
        rows: list[tuple[str, ...]] = []
        for operation, own in groupby(found, key=lambda each: each.case.collective):
            rows.append((operation, *head))  # its cases below its name
            rows += ((format_size(each.case.size_bytes), *_row(each, head)) for each in own)
        text += aligned(rows, range(len(rows[0])))
        text += folded(answer(found), _COLUMNS, rest="  ")
        notes |= dict.fromkeys(_notes(found))
    text += [""] if notes else []
    text += (line for note in notes for line in folded(note, _COLUMNS))
    return [f"# {line}".rstrip() for line in text]


def answer(found: Sequence[Judged]) -> str:
    """Of one neighbour: the case that suffers most, and how many do. Cases of no bytes are left out."""
    moving = [each for each in found if each.case.size_bytes or not each.case.row.sized] or found
    decided = [each for each in moving if each.is_decided]
    where = f"beside {found[0].beside.what}"
    if not decided:
        return f"{where}: too few rounds to say: raise --case-time"
    slower = [each for each in decided if each.is_slower]
    worst = max(slower or decided, key=lambda each: each.beside.mean.value)
    of = worst.beside
    text = f"{where}: {_name(worst.case)} takes {interval_words(of.mean)} times as long"
    text += f", {interval_words(of.median)} at the median"
    if of.left is not None:
        work = "memory bandwidth" if of.unit == "GB/s" else "compute"
        text += f", and leaves {100 * of.left.value:.0f} % of the {work}"
    text += f", {PART_ALONE}" if worst.is_part_alone else ""
    if len(moving) > 1:
        text += f"; slower in {len(slower)} of {counted(len(moving), 'case')}"
    undecided = len(moving) - len(decided)
    return f"{text}, {undecided} with too few rounds to say" if undecided else text


def plot_beside(of: tuple[str, ...], title: str, found: Sequence[Sequence[Judged]]) -> Plot:
    """Both ratios against size, of cases that have one; of loads, or of operations."""
    rows = [
        curves.row(
            f"{label} {each.beside.what}",
            each.case.size_bytes,
            factor.value,
            (factor.low, factor.high),
            interval_words(factor),
        )
        for own in found
        for each in own
        for label, factor in (("time beside", each.beside.mean), ("left of", each.beside.left))
        if factor is not None and each.case.size_bytes
    ]
    head = _head(found[0])
    cells = tuple((_name(each.case), each.beside.what, *_row(each, head)) for own in found for each in own)
    notes = (*map(answer, found), *_notes(found[0]))
    table = Table(("case", "neighbour", *head), cells, keys=2, notes=notes)
    note = "In turn alone and beside the neighbour; 1 is as alone."
    words = {"x": "size", "y": "beside / alone"}
    return Plot("curve", of, "beside", title, note, tuple(rows), table, words)


def _head(found: Sequence[Judged]) -> tuple[str, ...]:
    clocks = ("clock MHz",) if any(each.beside.clocks_mhz for each in found) else ()
    return (*_ALWAYS, *((*_OF_LOADS, *clocks) if found[0].beside.unit else _OF_OPERATIONS))


def _notes(found: Sequence[Judged]) -> tuple[str, ...]:
    """What the columns are."""
    return (_TIMES, _SUM, _SCALE) if found[0].beside.unit else (_TIMES, _DURING)


def interval_words(found: Factor | None, scale: int = 1) -> str:
    """``1.31 (1.28-1.34)``; of too few rounds without an interval."""
    if found is None:
        return "n/a"
    form = _digits if scale == 1 else "{:.0f}".format
    ends = [scale * end for end in (found.low, found.high) if end is not None]
    return f"{form(scale * found.value)} ({'-'.join(map(form, ends)) if len(ends) > 1 else 'n/a'})"


def _digits(value: float) -> str:
    """Three, at most two of them decimals."""
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


_CELLS: Final[Mapping[str, Callable[[Judged], str]]] = {
    "alone": lambda each: format_time(median(each.beside.alone_ns)),
    "beside": lambda each: format_time(median(each.beside.beside_ns)),
    "mean": lambda each: interval_words(each.beside.mean),
    "median": lambda each: _digits(each.beside.median.value),
    "p99": lambda each: interval_words(each.beside.p99),
    "left %": lambda each: interval_words(each.beside.left, 100),
    "sum": lambda each: "n/a" if each.beside.sum is None else f"{each.beside.sum.value:.2f}",
    "during %": lambda each: f"{100 * each.during:.0f}" + (f" {PART_ALONE}" if each.is_part_alone else ""),
    "clock MHz": lambda each: " > ".join(map(str, each.beside.clocks_mhz)) or "n/a",  # alone, and beside
}


def _row(each: Judged, head: Iterable[str]) -> tuple[str, ...]:
    return tuple(_CELLS[name](each) for name in head)


def _name(case: Case) -> str:
    return f"{case.collective} {format_size(case.size_bytes)}" if case.row.sized else case.collective
