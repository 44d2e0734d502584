"""The ranks of a case as a table, and what it tells about who was late. Pure.

Every line that is not a row starts with #.
"""

from __future__ import annotations

from typing import Final

from busbw.judge.ranks import CONFIDENCE, Latest, Order, RankTable, RankTimes
from busbw.model.collective import VARIABLE
from busbw.model.plan import Plan
from busbw.report.columns import NOT_APPLICABLE, time_us
from busbw.report.fields import Field, fact, table_lines
from busbw.report.header_footer import describe_case
from busbw.units import format_share


def _percent(share: float | None) -> str:
    return NOT_APPLICABLE if share is None else format_share(share)


# Behind them stands the device, whose name may have spaces.
COLUMNS: Final[tuple[Field[RankTimes], ...]] = (
    Field("rank", lambda rank: str(rank.rank)),
    Field("host", lambda rank: rank.host or NOT_APPLICABLE),
    Field("local", lambda rank: NOT_APPLICABLE if rank.local_rank is None else str(rank.local_rank)),
    Field("samples", lambda rank: str(rank.samples)),
    Field("median", lambda rank: time_us(rank.median_ns), unit="(us)"),
    Field("p95", lambda rank: time_us(rank.p95_ns), unit="(us)"),
    Field("max", lambda rank: time_us(rank.max_ns), unit="(us)"),
    Field("no core", lambda rank: time_us(rank.run_delay_ns), unit="(us)"),
    Field("issue", lambda rank: time_us(rank.issue_ns), unit="(us)"),
    Field("over T_last", lambda rank: time_us(rank.over_last_ns), unit="(us)"),
    Field("shortest", lambda rank: _percent(rank.shortest_share), unit="in"),
)

# What the times of single ranks do not tell, and why.
NOT_TOLD: Final = {
    Order.NOT_KEPT: (
        "unknown: the record has samples of {raw} of {all} ranks, and finding the last one needs all;",
        "check rank {shortest} first, which has the shortest median",
    ),
    Order.IN_STEP: (
        "unknown: in back-to-back calls a late rank makes the samples of all ranks longer;",
        "to find it, measure single calls with --mode latency",
    ),
    Order.ROOTED: ("unknown: in a rooted operation ranks do different work, and a short time may be normal",),
    Order.GROUPS: ("unknown: a rank waits only for its own group, and the table shows all groups",),
    Order.NEIGHBOURS: (
        "unknown: a rank waits only for its neighbours, so a short time means that they were ready",
    ),
    Order.UNKNOWN: ("unknown: the record does not say how the operation was timed",),
}


def rank_lines(plan: Plan, table: RankTable) -> list[str]:
    """The table of one case: what the times are, a row a rank, the longest and the latest."""
    columns = (*COLUMNS[:3], *_byte_columns(plan, table), *COLUMNS[3:])
    arrival, sample = plan.timing.arrival, sample_words(table.calls_per_sample, plan.timing.mode)
    return [
        fact("case", f"{table.case}: {describe_case(plan.cases[table.case])}"),
        fact("time", f"of one call, each rank's own; {sample}"),
        *([fact("arrival", f"{arrival}: ranks were delayed on purpose")] if arrival != "none" else []),
        *([fact("flagged", flagged_words(table.flagged))] if table.flagged else []),
        *table_lines(columns, table.ranks, words=lambda rank: rank.device or NOT_APPLICABLE, last="device"),
        *(f"# {line}" for line in conclusions(table)),
    ]


def _byte_columns(plan: Plan, table: RankTable) -> tuple[Field[RankTimes], ...]:
    """What each rank sends and receives, where ranks differ."""
    case = plan.cases[table.case]
    if case.collective not in VARIABLE:
        return ()
    moved = {rank.rank: plan.rank_bytes(case, rank.rank, table.world_size) for rank in table.ranks}
    return (
        Field("sends", lambda rank: str(moved[rank.rank][0]), unit="(B)"),
        Field("receives", lambda rank: str(moved[rank.rank][1]), unit="(B)"),
    )


def sample_words(calls_per_sample: int, mode: str) -> str:
    """What a sample is, for a heading."""
    if mode == "latency":
        return "a sample is one call, timed from entry to exit"
    if calls_per_sample > 1:
        return f"a sample is {calls_per_sample} back-to-back calls, so single slow calls are averaged away"
    return "calls follow each other, one a sample"


def flagged_words(samples: int) -> str:
    """What is known against samples that are shown."""
    return f"{samples} samples: a rank was descheduled, or a clock stepped (`flags` in the record)"


def conclusions(table: RankTable) -> list[str]:
    """Which rank took longest and which was late, with the numbers; or why that is not told."""
    if table.world_size == 1:
        return ["latest   a single rank never waits"]
    longest, shortest = table.longest, table.shortest
    first = f"longest  {_name(longest)}: median {time_us(longest.median_ns)} us, {_above(longest, shortest)}"
    lines = [f"{first} the shortest ({_name(shortest)})"]
    if table.order is Order.TOLD and table.latest is not None:
        lines[0] += "; it came first or left last"
        told = _latest(table, table.latest)
    elif table.order is Order.TOLD:
        lines[0] += "; it came first or left last"
        often = max(table.ranks, key=lambda rank: rank.shortest_share or 0.0)
        share = _percent(often.shortest_share)
        told = [f"no rank stands out; {_name(often)} was shortest most often, in {share}"]
    else:
        known = {"raw": table.raw_ranks, "all": table.world_size, "shortest": _name(shortest)[5:]}
        told = [text.format(**known) for text in NOT_TOLD[table.order]]
    return [*lines, f"latest   {told[0]}", *(f"         {text}" for text in told[1:])]


def _latest(table: RankTable, latest: Latest) -> list[str]:
    rank = next(row for row in table.ranks if row.rank == latest.rank)
    wait = (
        f"the next to last waited {time_us(latest.wait_ns)} us for it"
        f" (median; {CONFIDENCE:.0%} interval {time_us(latest.low_ns)} to {time_us(latest.high_ns)})"
    )
    lines = [f"{_name(rank)}: shortest in {format_share(latest.shortest_share)} of the samples; {wait}"]
    if not latest.certain:
        lines.append(
            f"no more than the call itself takes ({time_us(latest.call_ns)} us): it came last, or it left"
            " first"
        )
    return lines


def _above(longest: RankTimes, shortest: RankTimes) -> str:
    if shortest.median_ns <= 0:
        return "against 0 of"
    ratio = longest.median_ns / shortest.median_ns
    return f"{ratio:.1f} times" if ratio >= 2 else f"{format_share(ratio - 1)} above"


def _name(rank: RankTimes) -> str:
    return f"rank {rank.rank}" + (f" on {rank.host}" if rank.host else "")
