"""The table of a run for a terminal, laid out for its width.

What is the same in every row stands above the rows, and a check is mentioned only where it failed. The two
placements stand side by side where they fit, else below each other. ``report.table`` has every column. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from busbw.model.case import Case
from busbw.model.collective import Placement
from busbw.model.mark import MARKS
from busbw.model.plan import Plan
from busbw.model.result import CaseResult, Status
from busbw.report.columns import FIRST, GROUP_COLUMN, LAST, ResultColumn, group_rows, is_split, result_columns
from busbw.units import format_share, format_size

if TYPE_CHECKING:
    from busbw.judge.scatter import Prior

_TIME_WIDTH, _INTERVAL_WIDTH = 8, 7  # "12345678" and "<0.1%"
_BANDWIDTHS: Final = 2  # columns at the end
_MARK: Final = 16  # "descheduled(out)"
_SIDES: Final = {Placement.OUT_OF_PLACE: "out", Placement.IN_PLACE: "in"}
# What a run shows without --stats: in the full table only.
_UNASKED: Final = {("imbalance", "n"), ("p99", "skew", "imbalance", "n"), ("p99", "imbalance", "n")}
_ENDED: Final = {Status.FAILED: "failed", Status.NOT_RUN: "not run"}


@dataclass(frozen=True)
class Layout:
    """How the rows of one table are written. ``left_out`` are titles of columns that have no room."""

    columns: tuple[ResultColumn, ...]
    size_width: int
    placements: tuple[Placement, ...]
    beside: bool
    grouped: bool
    left_out: tuple[str, ...] = ()

    @property
    def side_width(self) -> int:
        """Of one placement's columns."""
        return sum(column.width + 1 for column, _ in self.columns)

    @property
    def left_width(self) -> int:
        """Of what stands before them."""
        names = 0 if self.beside else max(map(len, _SIDES.values())) + 1
        return 1 + self.size_width + (GROUP_COLUMN.width + 1 if self.grouped else 0) + names

    @property
    def width(self) -> int:
        """Of the longest row."""
        sides = len(self.placements) if self.beside else 1
        return self.left_width + sides * (self.side_width + 1) - 1 + 1 + _MARK


def table_of(case: Case) -> tuple[object, ...]:
    """What all rows of a table share."""
    return (case.stream, case.collective, case.dtype, case.op, case.root)


def shows_statistics(plan: Plan) -> bool:
    """Whether columns beside time and bandwidth were asked for."""
    return plan.show not in _UNASKED


def lay_out(plan: Plan, first: Case, width: int) -> Layout:
    """The layout of the table that begins with the case ``first``, for so many columns of a terminal."""
    cases = [case for case in plan.cases if table_of(case) == table_of(first)]
    placements = tuple(dict.fromkeys(case.placement for case in cases))
    size_width = max(5, *(len(format_size(case.size_bytes)) for case in cases))
    columns = _columns(plan.show if shows_statistics(plan) else ())
    grouped = is_split(plan.of_case(first).groups)
    wide = Layout(columns, size_width, placements, beside=True, grouped=grouped)
    if wide.width <= width:
        return wide
    layout = replace(wide, beside=False)
    extra = columns[len(FIRST) : -_BANDWIDTHS]
    while layout.width > width and extra:
        *kept, (dropped, _) = extra
        extra = tuple(kept)
        shown = (*columns[: len(FIRST)], *extra, *columns[-_BANDWIDTHS:])
        layout = replace(layout, columns=shown, left_out=(dropped.title, *layout.left_out))
    return layout


def _columns(show: tuple[str, ...]) -> tuple[ResultColumn, ...]:
    """As in the full table, without the count of wrong elements."""
    widths = {"time": _TIME_WIDTH, "+-": _INTERVAL_WIDTH}
    wrong = LAST[_BANDWIDTHS]
    return tuple(
        (replace(column, width=widths.get(column.title, column.width)), value)
        for column, value in result_columns(show)
        if column is not wrong[0]
    )


def heading(layout: Layout, case: Case) -> list[str]:
    """What the rows share, then the titles of their columns."""
    words = [f"stream {case.stream}:" if case.stream >= 0 else "", case.collective, case.op, case.dtype]
    root = f", root {case.root}" if case.root >= 0 else ""
    titles = "".join(f" {column.title:>{column.width}}" for column, _ in layout.columns)
    units = "".join(f" {column.unit.strip('()'):>{column.width}}" for column, _ in layout.columns)
    sides = len(layout.placements) if layout.beside else 1
    group = f" {GROUP_COLUMN.title:>{GROUP_COLUMN.width}}" if layout.grouped else ""
    left = f"# {'size':>{layout.size_width - 1}}{group}"
    lines = [f"# {' '.join(filter(None, words))}{root}"]
    if layout.beside:
        names = " ".join(f"{placement.value:^{layout.side_width}}" for placement in layout.placements)
        lines.append("#".ljust(layout.left_width) + names.rstrip())
    lines += [
        left.ljust(layout.left_width) + " ".join([titles] * sides),
        "#".ljust(layout.left_width) + " ".join([units] * sides),
    ]
    if layout.left_out:
        lines.append(f"# --wide also shows {', '.join(layout.left_out)}")
    return lines


def rows(layout: Layout, plan: Plan, case: Case, results: Sequence[CaseResult]) -> list[str]:
    """The lines of one size: one a placement, or one for both; with several groups also one for each."""
    own = plan.of_case(case)
    placements = [plan.cases[result.case].placement for result in results]
    lines = list(_row(layout, case.size_bytes, placements, results, "all" if layout.grouped else ""))
    for name, size_bytes, _, sides in group_rows(case, results) if is_split(own.groups) else ():
        lines += _row(layout, size_bytes, placements, sides, name)
    return lines


def _row(
    layout: Layout,
    size_bytes: int,
    placements: Sequence[Placement],
    results: Sequence[CaseResult | None],
    group: str,
) -> Iterator[str]:
    left = f" {format_size(size_bytes):>{layout.size_width}}"
    left += f" {group:>{GROUP_COLUMN.width}}" if layout.grouped else ""
    cells = {
        placement: "".join(f" {value(result):>{column.width}}" for column, value in layout.columns)
        for placement, result in zip(placements, results, strict=True)
        if result is not None
    }
    if layout.beside:
        empty = " " * layout.side_width
        sides = " ".join(cells.get(placement, empty) for placement in layout.placements)
        yield f"{left}{sides} {mark_of(placements, results)}".rstrip()
        return
    for placement, result in zip(placements, results, strict=True):
        if result is not None:
            name = f"{left} {_SIDES[placement]}".ljust(layout.left_width)
            yield f"{name}{cells[placement]} {mark_of((placement,), (result,))}".rstrip()


def mark_of(placements: Sequence[Placement], results: Sequence[CaseResult | None]) -> str:
    """One mark, the worst; with the placement that has it where the other one does not. Wrong elements are
    those of the worse placement.
    """
    there = [(placement, each) for placement, each in zip(placements, results, strict=True) if each]
    wrong = [each for _, each in there if each.status is Status.WRONG]
    if wrong:
        return f"WRONG {max(each.wrong or 0 for each in wrong) or ''}".rstrip()
    marks = {placement: (*_ended(each), *each.marks) for placement, each in there}
    worst = min((mark for own in marks.values() for mark in own), key=_rank, default="")
    first = worst[: _MARK - len("(out)")]
    having = [_SIDES[placement] for placement, own in marks.items() if any(m.startswith(first) for m in own)]
    return f"{first}({having[0]})" if first and len(having) < len(there) else first


def _rank(mark: str) -> int:
    """How bad it is, 0 first; how a case ended comes before its marks, and one of a newer version last."""
    order = (*_ENDED.values(), *(mark.name for mark in MARKS))
    return order.index(mark) if mark in order else len(order)


def _ended(result: CaseResult) -> tuple[str, ...]:
    return (_ENDED[result.status],) if result.status in _ENDED else ()


def scatter_line(prior: Prior, plan: Plan, results: Sequence[CaseResult]) -> list[str]:
    """By how much another launch differs at short times, which one launch's intervals cannot show."""
    short = [each for each in results if each.time_ns is not None and each.time_ns < plan.limits.small_ns]
    if not short:
        return []
    cases = (plan.cases[each.case] for each in short)
    most = max((prior.of(case.collective, case.size_bytes) for case in cases), key=lambda at: at.deviation)
    launches = f"{most.launches} earlier launches here"
    source = launches if most.launches else "the default: too few earlier launches here"
    share = format_share(most.deviation, decimals=0)
    return [f"# scatter  below 50 us, launches differ by about {share} ({source})"]
