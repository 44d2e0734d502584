"""The table that users of nccl-tests know: one line a size, out-of-place and in-place side by side.

Pure: cases and results to lines of text. Every line that is not a row starts with #.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from busbw.model.case import Case
from busbw.model.collective import Placement
from busbw.model.plan import Limits, Plan
from busbw.model.record import Method, WorldInfo
from busbw.model.result import CaseResult, Status
from busbw.units import NS_PER_US

NOT_APPLICABLE: Final = "n/a"


@dataclass(frozen=True)
class Column:
    """A column: two header lines, and how a value is written."""

    title: str
    unit: str
    width: int


CASE_COLUMNS: Final[tuple[tuple[Column, Callable[[Case], str]], ...]] = (
    (Column("size", "(B)", 12), lambda case: str(case.size_bytes)),
    (Column("count", "(elements)", 12), lambda case: str(case.count)),
    (Column("type", "", 9), lambda case: case.dtype),
    (Column("redop", "", 6), lambda case: case.op or "none"),
    (Column("root", "", 5), lambda case: str(case.root)),
)


def format_time_us(time_ns: float) -> str:
    """Microseconds with the digits of nccl-tests: two decimals below 100, one below 10,000, then none."""
    time_us = time_ns / NS_PER_US
    decimals = 2 if time_us < 100 else 1 if time_us < 10_000 else 0
    return f"{time_us:.{decimals}f}"


def _time(result: CaseResult) -> str:
    return NOT_APPLICABLE if result.time_ns is None else format_time_us(result.time_ns)


def _interval(result: CaseResult) -> str:
    if result.time_ns is None or result.low_ns is None or result.high_ns is None or not result.time_ns:
        return ""
    return f"{(result.high_ns - result.low_ns) / 2 / result.time_ns:.1%}"


def _bandwidth(value: float | None) -> str:
    return NOT_APPLICABLE if value is None else f"{value:.2f}"


def _wrong(result: CaseResult) -> str:
    return "N/A" if result.wrong is None else str(result.wrong)


RESULT_COLUMNS: Final[tuple[tuple[Column, Callable[[CaseResult], str]], ...]] = (
    (Column("time", "(us)", 10), _time),
    (Column("+-", "95%", 7), _interval),
    (Column("algbw", "(GB/s)", 8), lambda result: _bandwidth(result.algbw_gb_per_s)),
    (Column("busbw", "(GB/s)", 8), lambda result: _bandwidth(result.busbw_gb_per_s)),
    (Column("#wrong", "", 7), _wrong),
)


def heading(collective: str) -> list[str]:
    """The head of a table of one collective."""
    group_width = sum(column.width + 1 for column, _ in RESULT_COLUMNS)
    left = [column for column, _ in CASE_COLUMNS]
    right = [column for column, _ in RESULT_COLUMNS] * 2
    left_width = sum(column.width + 1 for column in left)
    titles = "".join(f" {column.title:>{column.width}}" for column in (*left, *right))
    units = "".join(f" {column.unit:>{column.width}}" for column in (*left, *right))
    groups = "".join(f"{placement.value:^{group_width}}" for placement in Placement)
    return [
        f"# {collective}".ljust(left_width) + groups.rstrip(),
        "#" + titles[1:],
        "#" + units[1:].rstrip(),
    ]


def row(case: Case, results: Sequence[CaseResult | None]) -> str:
    """One line: the case, then out-of-place and in-place. A marker after a wrong line says so."""
    line = "".join(f" {value(case):>{column.width}}" for column, value in CASE_COLUMNS)
    for result in results:
        line += "".join(
            f" {(value(result) if result is not None else ''):>{column.width}}"
            for column, value in RESULT_COLUMNS
        )
    if any(result is not None and result.status is Status.WRONG for result in results):
        line += "  WRONG"
    return line.rstrip()


def header(world: WorldInfo, method: Method, plan: Plan, version: str) -> list[str]:
    """What is measured, with what, by whom, and what the numbers mean."""
    first = world.ranks[0]
    hosts = world.hosts
    place = f"{len(hosts)} host{'s' if len(hosts) > 1 else ''} ({_some(hosts)})"
    lines = [
        f"busbw {version}: backend {plan.backend}, {first.library} {first.library_version}".rstrip(),
        f"library  {first.library_path or 'none'}",
        f"ranks    {world.size} on {place}, world {world.kind}, started by {world.launcher}",
        f"devices  {_devices(world)}",
        f"time     {method.time}; {_sampling(plan.limits)}",
        f"buffers  {method.buffers}; GB/s = 10^9 bytes/s; "
        + (f"{plan.checks} check{'s' if plan.checks > 1 else ''} a case" if plan.checks else "unchecked"),
    ]
    lines += [f"note     {note}" for note in _crowded_hosts(world)[:1]]
    return [f"# {line}" for line in lines]


def _crowded_hosts(world: WorldInfo) -> list[str]:
    """Hosts on which ranks have to share cores, in words."""
    notes = []
    for host in world.hosts:
        ranks = [rank for rank in world.ranks if rank.host == host]
        cores = ranks[0].facts.get("host_cores_allowed")
        if cores is not None and len(ranks) > cores:
            where = f" of {host}" if len(world.hosts) > 1 else ""
            plural = "s" if cores > 1 else ""
            notes.append(
                f"{len(ranks)} ranks on {cores} core{plural}{where}: they wait for each other's time slices"
            )
    return notes


def _sampling(limits: Limits) -> str:
    if limits.calls is not None:
        return f"{limits.calls} calls a case"
    small = (
        "" if limits.small_precision == limits.precision else f" ({limits.small_precision:.1%} below 50 us)"
    )
    return f"sampled to +-{limits.precision:.1%}{small} or {limits.case_seconds:g} s a case"


def _devices(world: WorldInfo) -> str:
    counts: dict[str, int] = {}
    for rank in world.ranks:
        counts[rank.device] = counts.get(rank.device, 0) + 1
    return ", ".join(f"{count} x {name}" for name, count in counts.items())


def _some(names: Sequence[str], most: int = 4) -> str:
    shown = ", ".join(names[:most])
    return f"{shown}, ... {names[-1]}" if len(names) > most else shown


def footer(plan: Plan, results: Sequence[CaseResult], folder: str) -> list[str]:
    """Wrong cases by name, what was left unfinished, and where the record is."""
    lines: list[str] = []
    for result in results:
        if result.status is Status.WRONG:
            case = plan.cases[result.case]
            lines.append(f"WRONG {describe_case(case)}: {result.wrong} elements")
            lines.extend(
                f"      rank {at.rank} on {at.host}: {at.wrong} wrong, "
                + (f"first at element {at.first_offset}" if at.first_offset >= 0 else "differs from rank 0")
                for at in result.wrong_at[:8]
            )
    missing = len(plan.cases) - len(results)
    if missing:
        lines.append(f"{missing} of {len(plan.cases)} cases were not measured")
    if plan.checks and not any(result.status is Status.WRONG for result in results) and results:
        lines.append("no wrong data" if not missing else "no wrong data in the finished cases")
    lines.append(f"record   {folder}")
    return [f"# {line}" for line in lines]


def describe_case(case: Case) -> str:
    """A case in words, for messages."""
    op = f" {case.op}" if case.op else ""
    return f"{case.collective}{op} {case.dtype} {case.size_bytes} B {case.placement.value}"
