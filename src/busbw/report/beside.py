"""What neighbours did to collectives (--beside), as lines: a row a case, and the answer. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from statistics import median
from typing import Final

from busbw.judge.beside import Judged, judged
from busbw.model.case import Case
from busbw.model.mark import LEAST_OVERLAP, PART_ALONE
from busbw.model.neighbour import Beside, Factor
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
    found = judged(plan, results)
    text = [line for own in found for line in ("", *_of_neighbour(own))]
    if found:
        notes = dict.fromkeys(note for own in found for note in _notes(own))
        text += ["", *(line for note in notes for line in folded(note, _COLUMNS))]
    return [f"# {line}".rstrip() for line in text]


def answer(found: Sequence[Judged]) -> str:
    """Of one neighbour: the case that suffers most, and how many do. Cases of no bytes are left out."""
    moving = [each for each in found if each.case.size_bytes or not each.case.row.sized] or found
    decided = [each for each in moving if each.is_decided]
    where = f"beside {found[0].beside.what}"
    if not decided:
        return f"{where}: too few rounds to say: raise --case-time"
    slower = [each for each in decided if each.is_slower]
    text = f"{where}: {_of_worst(max(slower or decided, key=lambda each: each.beside.mean.value))}"
    if len(moving) > 1:
        text += f"; slower in {len(slower)} of {counted(len(moving), 'case')}"
    undecided = len(moving) - len(decided)
    return f"{text}, {undecided} with too few rounds to say" if undecided else text


def _of_worst(worst: Judged) -> str:
    found = worst.beside
    text = f"{_name(worst.case)} takes {_interval(found.mean)} times as long"
    text += f", {_interval(found.median)} at the median"
    text += "" if found.left is None else f", and leaves {100 * found.left.value:.0f} % of the {_work(found)}"
    return text + (f", {PART_ALONE}" if worst.is_part_alone else "")


def plot_beside(of: tuple[str, ...], title: str, found: Sequence[Sequence[Judged]]) -> Plot:
    """Both ratios against size, of cases that have one; of loads, or of operations."""
    rows = [
        curves.row(
            f"{label} {each.beside.what}",
            each.case.size_bytes,
            factor.value,
            (factor.low, factor.high),
            _interval(factor),
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


def _of_neighbour(found: Sequence[Judged]) -> Iterator[str]:
    first = found[0].beside
    rates = [rate for each in found for rate in each.beside.work_alone]
    alone = f"; by itself {format_number(median(rates))} {first.unit} a rank" if any(rates) else ""
    yield from folded(f"beside {first.what}: {first.how}{alone}", _COLUMNS, rest="  ")
    yield from _table(found)
    yield from folded(answer(found), _COLUMNS, rest="  ")


def _table(found: Sequence[Judged]) -> list[str]:
    """The cases of an operation below its name."""
    head = _head(found)
    rows: list[tuple[str, ...]] = []
    for operation, own in groupby(found, key=lambda each: each.case.collective):
        rows.append((operation, *head))
        rows += ((format_size(each.case.size_bytes), *_row(each, head)) for each in own)
    return aligned(rows, range(len(rows[0])))


def _head(found: Sequence[Judged]) -> tuple[str, ...]:
    clocks = ("clock MHz",) if any(each.beside.clocks_mhz for each in found) else ()
    return (*_ALWAYS, *((*_OF_LOADS, *clocks) if found[0].beside.unit else _OF_OPERATIONS))


def _notes(found: Sequence[Judged]) -> tuple[str, ...]:
    """What the columns are."""
    return (_TIMES, _SUM, _SCALE) if found[0].beside.unit else (_TIMES, _DURING)


def _interval(found: Factor | None, scale: int = 1) -> str:
    """``1.31 (1.28-1.34)``; of too few rounds without an interval."""
    if found is None:
        return "n/a"
    form = _digits if scale == 1 else "{:.0f}".format
    if found.low is None or found.high is None:
        return f"{form(scale * found.value)} (n/a)"
    return f"{form(scale * found.value)} ({form(scale * found.low)}-{form(scale * found.high)})"


def _digits(value: float) -> str:
    """Three, at most two of them decimals."""
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


def _during(each: Judged) -> str:
    return f"{100 * each.during:.0f}" + (f" {PART_ALONE}" if each.is_part_alone else "")


_CELLS: Final[Mapping[str, Callable[[Judged], str]]] = {
    "alone": lambda each: format_time(median(each.beside.alone_ns)),
    "beside": lambda each: format_time(median(each.beside.beside_ns)),
    "mean": lambda each: _interval(each.beside.mean),
    "median": lambda each: _digits(each.beside.median.value),
    "p99": lambda each: _interval(each.beside.p99),
    "left %": lambda each: _interval(each.beside.left, 100),
    "sum": lambda each: "n/a" if each.beside.sum is None else f"{each.beside.sum.value:.2f}",
    "during %": _during,
    "clock MHz": lambda each: " > ".join(map(str, each.beside.clocks_mhz)) or "n/a",  # alone, and beside
}


def _row(each: Judged, head: Iterable[str]) -> tuple[str, ...]:
    return tuple(_CELLS[name](each) for name in head)


def _work(beside: Beside) -> str:
    return "memory bandwidth" if beside.unit == "GB/s" else "compute"


def _name(case: Case) -> str:
    return f"{case.collective} {format_size(case.size_bytes)}" if case.row.sized else case.collective
