"""What stands above and below the rows of a run. Pure. Every line starts with #."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, Final

from busbw.model.case import Case
from busbw.model.mark import meaning
from busbw.model.network import said_by, said_words
from busbw.model.plan import Plan, Stream
from busbw.model.record import NOT_STATED, TWO_RANKS, Method, RankInfo, WorldInfo
from busbw.model.result import CaseResult, Status, StopReason, WrongData
from busbw.report import columns
from busbw.report.columns import (
    NOT_APPLICABLE,
    SUMMARY_NOTE,
    format_time_us,
    is_split,
    pattern_words,
    without_interval,
)
from busbw.units import (
    NS_PER_US,
    counted,
    first_of,
    format_approximate_size,
    format_size,
    name_ranges,
    were,
)

_FINDINGS_SHOWN: Final = 5
_MOST_HOSTS: Final = 4
# Statuses of rows without numbers, which say why below the table.
_WITHOUT_NUMBERS: Final = {
    Status.NOT_APPLICABLE: NOT_APPLICABLE,
    Status.FAILED: "failed",
    Status.NOT_RUN: "not run",
}
OVERLAP_NOTE: Final = (
    "overlap: share of a stream's time in which all streams of the rank ran, on the rank with the least;"
    " median over samples"
)


def header(
    world: WorldInfo, method: Method, plan: Plan, version: str, source: Mapping[str, Any] | None = None
) -> list[str]:
    """What is measured, with what, by whom, and what the numbers mean. ``source`` has the fields of an
    ImportSource where the numbers come from a log.
    """
    if source is not None:
        return _imported_header(world, method, plan, version, source)
    first, hosts = world.ranks[0], world.hosts
    place = f"{counted(len(hosts), 'host')} ({_some(hosts)})"
    lines = [
        f"busbw {version}: backend {plan.backend}, {first.library} {first.library_version}".rstrip(),
        f"library  {first.library_path or 'none'}",
        f"ranks    {world.size} on {place}, world {world.kind}, started by {world.launcher}",
        f"devices  {_devices(world)}",
        *([f"nccl     {said}"] if (said := "; ".join(said_words(said_by(world)))) else []),
        f"time     {method.time}; {_sampling(plan)}{_clock(method)}",
        f"buffers  {method.buffers}; GB/s = 10^9 bytes/s; "
        + (f"{counted(plan.checks, 'check')} a case" if plan.checks else "unchecked"),
    ]
    lines += pattern_words(plan, world.size)
    return [f"# {line}" for line in lines]


def _imported_header(
    world: WorldInfo, method: Method, plan: Plan, version: str, source: Mapping[str, Any]
) -> list[str]:
    """Of a log only what it says, and whose word the number of ranks is."""
    first = world.ranks[0]
    named = world.known_hosts
    hosts = f" on {counted(len(named), 'host')} ({_some(named)})" if named else ""
    devices = source["fields"].get("hosts", "").partition(f"{NOT_STATED}: ")[2]  # why they are not known
    devices = f"not known: {devices}" if devices else ""
    if {rank.device for rank in world.ranks} - {"", NOT_STATED}:
        devices = _devices(world)
    where = f"{source['path']}, lines {source['first_line']} to {source['last_line']}"
    lines = [
        f"busbw {version}: imported from {where if source['first_line'] else source['path']}",
        f"tool     {source['tool']}, {first.library or plan.backend} {first.library_version}".rstrip(),
        f"ranks    {world.size}{hosts}, by {source['fields'].get('ranks', NOT_STATED)}",
        *([f"devices  {devices}"] if devices else []),
        f"time     {method.time}",
        f"buffers  {method.buffers}; GB/s = 10^9 bytes/s",
        *([f"log      {said}"] if (said := "; ".join(said_words(source.get("evidence", {})))) else []),
        *(f"note     {found['kind']}: {found['text']}" for found in source["findings"][:_FINDINGS_SHOWN]),
    ]
    more = len(source["findings"]) - _FINDINGS_SHOWN
    lines += [f"note     {more} more findings are in the record"] if more > 0 else []
    return [f"# {line}" for line in lines]


def _sampling(plan: Plan) -> str:
    limits = plan.limits
    if limits.calls == 0:
        return "nothing is timed (-n 0)"
    if limits.calls is not None:  # with -n, in rounds where they are repeated (--outer-iters)
        untimed = limits.outer_warmup_iters
        before = f" after {counted(untimed, 'untimed round')}" if untimed else ""
        times = f"{limits.outer_iters} x " if limits.outer_iters else ""
        return f"{times}{limits.calls} calls a case{before if times else ''}"
    if plan.soak is not None:
        return f"sampled in windows of {limits.case_seconds:g} s"
    same = limits.small_precision == limits.precision
    small = "" if same else f" ({_percent(limits.small_precision)} below 50 us)"
    budget = "" if limits.budget_seconds is None else f", {limits.budget_seconds:g} s for all cases"
    return f"sampled to +-{_percent(limits.precision)}{small} or {limits.case_seconds:g} s a case{budget}"


def _percent(share: float) -> str:
    """With one decimal, or as many as the share has digits for: 0.01 % is not 0.0 %."""
    exact = math.isclose(share * 1000, round(share * 1000), abs_tol=1e-9)
    return f"{share:.1%}" if exact else f"{share * 100:.3g}%"


def _clock(method: Method) -> str:
    if not method.clock_error_ns:
        return "" if method.clock_error_ns is None else "; the ranks share their host's clock"
    return f"; the ranks' clocks agree within {format_time_us(TWO_RANKS * method.clock_error_ns)} us"


def _devices(world: WorldInfo) -> str:
    """How many of each kind; GPUs by what they are, for several ranks may be on one."""
    each = dict.fromkeys((rank.device, _device_of(rank)) for rank in world.ranks)
    counts = Counter(name for name, _ in each)
    listed = ", ".join(f"{count} x {name}" for name, count in counts.items())
    return listed if len(each) == len(world.ranks) else f"{listed}, for {len(world.ranks)} ranks"


def _device_of(rank: RankInfo) -> str:
    """What tells a device from others: its UUID; in a log, its host, number and bus address."""
    place = [rank.host, *(str(rank.facts.get(name, "")) for name in ("device_index", "bus_id"))]
    is_known = NOT_STATED not in place and all(place)
    return rank.device_uuid or (" ".join(place) if is_known else str(rank.rank))


def _some(names: Sequence[str]) -> str:
    return first_of(names if len(names) <= _MOST_HOSTS else name_ranges(names), _MOST_HOSTS)


def footer(
    plan: Plan,
    results: Sequence[CaseResult],
    folder: str,
    memory_bytes: Mapping[str, int] | None = None,
    *,
    statistics: bool = True,
) -> list[str]:
    """Wrong cases by name, what the marks say, what was left unfinished, and where the record is; how the
    ``statistics`` were taken, where they are shown.
    """
    lines: list[str] = []
    for result in results:
        if result.status is Status.WRONG:
            case = plan.cases[result.case]
            unknown = "an unknown number of elements"
            count = unknown if result.wrong is None else counted(result.wrong, "element")
            lines.append(f"WRONG {describe_case(case)}: {count}")
            lines.extend(f"      rank {at.rank} on {at.host}: {_found(at)}" for at in result.wrong_at[:8])
    if any(map(is_split, (plan.groups, *(stream.groups for stream in plan.streams)))):
        lines.append(SUMMARY_NOTE)
    lines += [OVERLAP_NOTE] if "overlap" in plan.show else []
    lines += explanations(results, statistics=statistics)
    # Which sizes are not those of the fabric.
    if bound := [plan.cases[each.case].size_bytes for each in results if each.evidence.get("host_bound")]:
        sizes = " to ".join(dict.fromkeys(map(format_size, (min(bound), max(bound)))))
        why = "issuing a call takes as long as the call; a CUDA graph (-G) leaves it out"
        lines.append(f"host-bound at {sizes}: {why}")
    if any(result.stop is StopReason.CHECK_ONLY for result in results):
        lines.append(f"{NOT_APPLICABLE}: nothing was timed (-n 0)")
        lines += [] if plan.checks else ["N/A: nothing was checked (-c 0)"]
    lines += _how_far(plan, results)
    if memory_bytes and "memory" in plan.show:
        most = ", ".join(f"{use} {format_approximate_size(size)}" for use, size in memory_bytes.items())
        lines.append(f"memory   {most} (the most of any rank)")
    lines.append(f"record   {folder}")
    return [f"# {line}" for line in lines]


def _how_far(plan: Plan, results: Sequence[CaseResult]) -> list[str]:
    """How many cases are left, and that those which are done had no wrong data."""
    ends, missing = {result.status for result in results}, len(plan.cases) - len(results)
    lines = [f"{missing} of {len(plan.cases)} cases {were(missing)} not measured"] if missing else []
    if any(result.wrong is not None for result in results) and Status.WRONG not in ends:
        left_out = missing or Status.NOT_RUN in ends
        lines.append("no wrong data in the finished cases" if left_out else "no wrong data")
    return lines


def _found(at: WrongData) -> str:
    """What the checks of one rank found, in words."""
    where = f"{at.wrong} wrong, first at element {at.first_offset}" if at.first_offset >= 0 else ""
    return "; ".join(filter(None, (where, at.fault))) or f"{at.wrong} wrong, differs from rank 0"


def explanations(results: Sequence[CaseResult], *, statistics: bool = True) -> list[str]:
    """What marks mean, and why cases do not apply, failed or were not run; each once."""
    marks = dict.fromkeys(mark for result in results for mark in result.marks)
    lines = [f"{mark}: {meaning(mark)}" for mark in marks]
    missing = dict.fromkeys(without_interval(result) for result in results)
    lines += [f"{word}: {why}" for word, why in missing if word]
    lines = [*(_single_calls(results) if statistics else ()), *lines]
    reasons = dict.fromkeys(
        (_WITHOUT_NUMBERS[result.status], result.error)
        for result in results
        if result.status in _WITHOUT_NUMBERS and result.error
    )
    return lines + [f"{word}: {reason}" for word, reason in reasons]


def _single_calls(results: Sequence[CaseResult]) -> list[str]:
    """Which columns are of the pass of single calls, and what a reading of time after each does to a call."""
    singles = [result for result in results if "single_calls" in result.evidence]
    if not singles:
        return []
    asked = dict.fromkeys(word for result in singles for word in result.stats if word != "imbalance")
    words = dict.fromkeys("percentiles" if word.startswith("p") else word for word in asked)
    calls = max(result.evidence["single_calls"] for result in singles)
    lines = [f"{', '.join(words) or 'imbalance'}: from {calls} single calls, since a sample holds several"]
    overheads = [at for result in singles if (at := result.evidence.get("timing_overhead_ns")) is not None]
    if overheads:
        us, cases = median(overheads) / NS_PER_US, len(overheads)
        lines.append(
            f"timing overhead: timing calls one by one adds {us:.2f} us"
            + (f" (median of {cases} cases)" if cases > 1 else "")
        )
    return lines


def describe_case(case: Case) -> str:
    """A case in words, for messages."""
    op = f" {case.op}" if case.op else ""
    return f"{case.collective}{op} {case.dtype} {case.size_bytes} B {case.placement.value}"


# Operations that ran at once.


def stream_words(plan: Plan, ranks: int) -> list[str]:
    """Header lines: each stream's operation, how many calls an iteration has of it, and its ranks."""
    lines = []
    for number, stream in enumerate(plan.streams):
        calls = f"{counted(stream.calls, 'call')} an iteration"
        calls = calls if stream.calls else "as many calls as the slowest stream takes time for"
        lines.append(", ".join((f"stream {number} {stream.collective}", calls, *_own_words(plan, stream))))
        # What is moved is said already, for all or as this stream's own.
        lines += columns.pattern_words(replace(plan.of_stream(number), data="exact"), ranks)
    return lines


def _own_words(plan: Plan, stream: Stream) -> list[str]:
    """What this stream has other than the run."""
    limits, own = stream.limits(plan.limits), stream.own
    words = []
    if stream.iters is not None or stream.warmup_iters is not None:
        words.append(f"{limits.calls} iterations behind {limits.warmup_calls or 0} untimed")
    if "checks" in own:
        words.append(counted(stream.checks, "check") if stream.checks else "unchecked")
    if "data" in own:
        words.append(f"data {stream.data}")
    if "seed" in own:
        words.append(f"seed {stream.seed}")
    return words
