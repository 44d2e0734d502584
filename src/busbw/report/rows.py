"""The rows of a run: with all columns, as users of nccl-tests know them, or laid out for a terminal's width.

On a terminal, what is the same in every row stands above the rows, and a check is mentioned only where it
failed. The two placements stand side by side where they fit, else below each other. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from busbw.model.case import Case
from busbw.model.collective import Placement
from busbw.model.mark import MARKS
from busbw.model.plan import Plan
from busbw.model.result import CaseResult, Status
from busbw.report.columns import FIRST, GROUP_WIDTH, LAST, group_rows, is_split, result_columns
from busbw.report.fields import Field, row_of
from busbw.units import format_share, format_size

if TYPE_CHECKING:
    from busbw.judge.scatter import Prior

Sides = Sequence[tuple[Placement, CaseResult]]
"""The results of one size that there are."""

CASE_COLUMNS: Final[tuple[Field[Case], ...]] = (
    Field("size", lambda case: str(case.size_bytes), 12, unit="(B)"),
    Field("count", lambda case: str(case.count), 12, unit="(elements)"),
    Field("type", lambda case: case.dtype, 9),
    Field("redop", lambda case: case.op or "none", 6),
    Field("root", lambda case: str(case.root), 5),
)
_TIME_WIDTH, _INTERVAL_WIDTH = 8, 7  # "12345678" and "<0.1%"
_BANDWIDTHS: Final = 2  # columns at the end
_MARK: Final = 16  # "descheduled(out)"
_SIDES: Final = {Placement.OUT_OF_PLACE: "out", Placement.IN_PLACE: "in"}
# What a run shows without --stats: with all columns only.
_UNASKED: Final = {("imbalance", "n"), ("p99", "skew", "imbalance", "n"), ("p99", "imbalance", "n")}
_ENDED: Final = {Status.FAILED: "failed", Status.NOT_RUN: "not run"}


@dataclass(frozen=True)
class Layout:
    """How the rows of one table are written, below its ``name``. ``marks`` stand behind a row; a ``gap`` is
    between placements. ``left_out`` are titles of columns that have no room.
    """

    name: str
    cases: tuple[Field[Case], ...]
    results: tuple[Field[CaseResult], ...]
    placements: tuple[Placement, ...]
    grouped: bool
    marks: Callable[[Case, Sides], str]
    gap: str = ""
    beside: bool = True
    left_out: tuple[str, ...] = ()

    @property
    def left_width(self) -> int:
        """Of what stands before the results."""
        names = 0 if self.beside else max(map(len, _SIDES.values())) + 1
        return _width(self.cases) + (GROUP_WIDTH + 1) * self.grouped + names

    @property
    def side_width(self) -> int:
        """Of one placement's columns."""
        return _width(self.results)

    @property
    def width(self) -> int:
        """Of the longest row with a mark."""
        sides = len(self.placements) if self.beside else 1
        return self.left_width + sides * (self.side_width + len(self.gap)) + _MARK


def _width(columns: Sequence[Field[Any]]) -> int:
    return sum(column.width + 1 for column in columns)


def table_of(case: Case) -> tuple[object, ...]:
    """What all rows of a table on a terminal share."""
    return (case.stream, case.collective, case.dtype, case.op, case.root)


def shows_statistics(plan: Plan) -> bool:
    """Whether columns beside time and bandwidth were asked for."""
    return plan.show not in _UNASKED


def all_columns(plan: Plan, first: Case) -> Layout:
    """The layout with all columns of the table that begins with the case ``first``."""
    rows = [case for case in plan.cases if (case.stream, case.collective) == (first.stream, first.collective)]
    return Layout(
        f"stream {first.stream}: {first.collective}" if plan.streams else first.collective,
        CASE_COLUMNS,
        result_columns(plan.show),
        tuple(dict.fromkeys(case.placement for case in rows)),
        is_split(plan.of_case(first).groups),
        every_mark,
    )


def fitted(plan: Plan, first: Case, width: int) -> Layout:
    """The layout of the table that begins with the case ``first``, for so many columns of a terminal."""
    cases = [case for case in plan.cases if table_of(case) == table_of(first)]
    words = (f"stream {first.stream}:" if first.stream >= 0 else "", first.collective, first.op, first.dtype)
    width_of_size = max(5, *(len(format_size(case.size_bytes)) for case in cases))
    columns = _columns(plan.show if shows_statistics(plan) else ())
    wide = Layout(
        " ".join(filter(None, words)) + (f", root {first.root}" if first.root >= 0 else ""),
        (Field("size", lambda case: format_size(case.size_bytes), width_of_size),),
        columns,
        tuple(dict.fromkeys(case.placement for case in cases)),
        is_split(plan.of_case(first).groups),
        worst_mark,
        gap=" ",
    )
    if wide.width <= width:
        return wide
    layout = replace(wide, beside=False)
    for at in range(len(columns) - _BANDWIDTHS - 1, len(FIRST) - 1, -1):
        if layout.width > width:
            shown = (*columns[:at], *columns[-_BANDWIDTHS:])
            layout = replace(layout, results=shown, left_out=(columns[at].title, *layout.left_out))
    return layout


def _columns(show: tuple[str, ...]) -> tuple[Field[CaseResult], ...]:
    """As of all columns, without the count of wrong elements."""
    widths = {"time": _TIME_WIDTH, "+-": _INTERVAL_WIDTH}
    return tuple(
        replace(column, unit=column.unit.strip("()"), width=widths.get(column.title, column.width))
        for column in result_columns(show)
        if column is not LAST[_BANDWIDTHS]
    )


def heading(layout: Layout) -> list[str]:
    """What the rows share, then the titles of their columns."""
    sides = len(layout.placements) if layout.beside else 1
    lines = [f"# {layout.name}"]
    if layout.beside:
        names = layout.gap.join(f"{placement.value:^{layout.side_width}}" for placement in layout.placements)
        if len(lines[0]) >= layout.left_width:
            lines.append("#")
        lines[-1] = lines[-1].ljust(layout.left_width) + names.rstrip()
    for word, group in (("title", "group"), ("unit", "")):
        left, side = (
            "".join(f" {getattr(column, word):>{column.width}}" for column in columns)
            for columns in (layout.cases, layout.results)
        )
        left += f" {group:>{GROUP_WIDTH}}" if layout.grouped else ""
        line = left.ljust(layout.left_width) + layout.gap.join([side] * sides)
        lines.append(f"#{line[1:]}".rstrip())
    if layout.left_out:
        lines.append(f"# --wide also shows {', '.join(layout.left_out)}")
    return lines


def rows(layout: Layout, plan: Plan, case: Case, results: Sequence[CaseResult]) -> list[str]:
    """The lines of one size: one a placement, or one for both. With several groups that of the slowest group
    of every sample, one for each group, and the smallest, median and largest value of each column over them.
    """
    placements = [plan.cases[result.case].placement for result in results]
    lines = list(_lines(layout, case, list(zip(placements, results, strict=True)), "all"))
    for name, size_bytes, count, sides in group_rows(case, results) if layout.grouped else ():
        of_group = replace(case, size_bytes=size_bytes, count=count, beside=())
        lines += _lines(layout, of_group, list(zip(placements, sides, strict=True)), name)
    return lines


def _lines(layout: Layout, case: Case, sides: Sides, group: str) -> Iterator[str]:
    left = f" {row_of(layout.cases, case)}" + (f" {group:>{GROUP_WIDTH}}" if layout.grouped else "")
    cells = {placement: f" {row_of(layout.results, result)}" for placement, result in sides}
    if layout.beside:
        empty = " " * layout.side_width
        line = layout.gap.join(cells.get(placement, empty) for placement in layout.placements)
        yield f"{left}{line}{layout.marks(case, sides)}".rstrip()
        return
    for placement, result in sides:
        name = f"{left} {_SIDES[placement]}".ljust(layout.left_width)
        yield f"{name}{cells[placement]}{layout.marks(case, [(placement, result)])}".rstrip()


def every_mark(case: Case, sides: Sides) -> str:
    """The words behind a row with all columns, and what ran beside it."""
    results = [result for _, result in sides]
    words = ["WRONG"] * any(result.status is Status.WRONG for result in results)
    words += marks_of(results) + ([f"by {case.arm}"] if case.arm else []) + ["even"] * case.even
    texts = (" ".join(words), f"beside {'; '.join(case.beside)}" if case.beside else "")
    return "".join(f"  {text}" for text in texts if text)


def marks_of(results: Sequence[CaseResult]) -> list[str]:
    """The words behind a row. Where both placements were measured, a mark of one of them says which."""
    sides = [result for result in results if result.time_ns is not None]
    marks = dict.fromkeys(mark for result in results for mark in result.marks)
    if len(sides) < 2:
        return list(marks)
    return [
        mark
        + "".join(
            f"({side})"
            for side, other in zip(("out", "in"), reversed(sides), strict=True)
            if mark not in other.marks
        )
        for mark in marks
    ]


def worst_mark(case: Case, sides: Sides) -> str:  # noqa: ARG001 (as every_mark)
    """One mark; with the placement that has it where the other one does not. Wrong elements are those of the
    worse placement.
    """
    wrong = [each for _, each in sides if each.status is Status.WRONG]
    if wrong:
        return f" WRONG {max(each.wrong or 0 for each in wrong) or ''}"
    marks = {
        placement: (*([_ENDED[each.status]] if each.status in _ENDED else []), *each.marks)
        for placement, each in sides
    }
    worst = min((mark for own in marks.values() for mark in own), key=_rank, default="")
    first = worst[: _MARK - len("(out)")]
    having = [_SIDES[placement] for placement, own in marks.items() if any(m.startswith(first) for m in own)]
    return f" {first}({having[0]})" if first and len(having) < len(sides) else f" {first}"


def _rank(mark: str) -> int:
    """How bad it is, 0 first; how a case ended comes before its marks, and one of a newer version last."""
    order = (*_ENDED.values(), *(mark.name for mark in MARKS))
    return order.index(mark) if mark in order else len(order)


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
