"""The columns of a result: one row each, with how a value is written; and rows of groups of ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any, Final

from busbw.model.case import Case
from busbw.model.plan import Plan
from busbw.model.result import CaseResult, Status
from busbw.report.fields import Field, shown
from busbw.units import NS_PER_US, first_of, format_share_short

NOT_APPLICABLE: Final = "n/a"
NOT_OBSERVED: Final = "not observed"


def format_time_us(time_ns: float) -> str:
    """Microseconds with the digits of nccl-tests: two decimals below 100, one below 10,000, then none."""
    time_us = time_ns / NS_PER_US
    decimals = 2 if time_us < 100 else 1 if time_us < 10_000 else 0
    return f"{time_us:.{decimals}f}"


def time_us(time_ns: float | None) -> str:
    """The same where there is a time."""
    return NOT_APPLICABLE if time_ns is None else format_time_us(time_ns)


def _interval(result: CaseResult) -> str:
    if result.half_width is None:
        word, _ = without_interval(result)
        return word
    return format_share_short(result.half_width)


def without_interval(result: CaseResult) -> tuple[str, str]:
    """What stands in the place of an interval that the samples do not give, and what it means; both empty
    where there is one, or it is not for the samples that there is none.

    A case that stopped by its own numbers was judged at a look's confidence, which takes more of them.
    """
    if not result.time_ns or result.half_width is not None:
        return "", ""
    from busbw.stats.interval import least_samples  # it takes numpy, which most tables can do without
    from busbw.stats.stopping import FIXED_CONFIDENCE, reported_confidence

    least = least_samples(reported_confidence(result.stop) if result.stop else FIXED_CONFIDENCE)
    if 0 < result.samples < least:
        return (
            f"n<{least}",
            f"an interval takes {least} samples: give more --case-time, a larger -n, or more --cycles",
        )
    if result.tau:
        return (
            "drifts",
            "the samples change too slowly to give an interval: give more --case-time, or find what changes",
        )
    return "", ""


def _bytes(value: int | None) -> str:
    return "" if value is None else str(value)


def _overlap(result: CaseResult) -> str:
    return NOT_APPLICABLE if result.overlap is None else format_share_short(result.overlap, 0)


def _algorithm(result: CaseResult) -> str:
    """The library's own words; sends and receives have no algorithm, so what they are."""
    functions = result.choice.functions if result.choice is not None else ()
    return result.algorithm or "+".join(functions) or _unobserved(result)


def _channels(result: CaseResult) -> str:
    channels = result.choice.channels if result.choice is not None else None
    return _unobserved(result) if channels is None else str(channels)


def _unobserved(result: CaseResult) -> str:
    return NOT_APPLICABLE if result.status is Status.NOT_APPLICABLE else NOT_OBSERVED


def _statistic(word: str, result: CaseResult) -> str:
    """A statistic of the samples. A high percentile is shown by what bounds it; of too few samples it is not
    shown, but how many it needs is.
    """
    value, at_most_ns = result.stats.get(word), result.evidence.get("at_most_ns", {}).get(word)
    if at_most_ns is not None:
        return f"<{format_time_us(at_most_ns)}"
    if value is not None:
        return format_share_short(value, 2) if word == "cv" else format_time_us(value)
    single = result.calls_per_sample <= 1 or "single_calls" in result.evidence
    if word.startswith("p") and result.time_ns is not None and single:
        from busbw.stats.percentile import least_samples

        return f"n<{least_samples(float(word[1:]))}"
    return "" if result.time_ns is None else NOT_APPLICABLE


FIRST: Final[tuple[Field[CaseResult], ...]] = (
    Field("time", lambda result: time_us(result.time_ns), 10, unit="(us)"),
    Field("+-", _interval, 6, unit="95%"),
)
LAST: Final[tuple[Field[CaseResult], ...]] = (
    Field("algbw", lambda result: shown(result.algbw_gb_per_s, ".2f"), 7, unit="(GB/s)"),
    Field("busbw", lambda result: shown(result.busbw_gb_per_s, ".2f"), 7, unit="(GB/s)"),
    Field("#wrong", lambda result: "N/A" if result.wrong is None else str(result.wrong), 6),
)
# Words that name a field rather than a statistic (model.result.FIELD_WORDS), and -S.
_FIELDS: Final[dict[str, Field[CaseResult]]] = {
    "n": Field("n", lambda result: str(result.samples or ""), 5),
    "issue": Field("issue", lambda result: time_us(result.issue_ns), 8, unit="(us)"),
    "skew": Field("skew", lambda result: time_us(result.skew_ns), 8, unit="(us)"),
    "first": Field("first", lambda result: time_us(result.first_call_ns), 10, unit="(us)"),
    "in": Field("in", lambda result: _bytes(result.input_bytes), 11, unit="(B)"),
    "out": Field("out", lambda result: _bytes(result.output_bytes), 11, unit="(B)"),
    "algorithm": Field("algorithm", _algorithm, 12),
    "channels": Field("channels", _channels, 12),
    "overlap": Field("overlap", _overlap, 7),
    "timestamp": Field("finished", lambda result: result.finished[11:23], 12, unit="(UTC)"),
}
_SHORT: Final = {"imbalance": "imb"}


def result_columns(show: tuple[str, ...]) -> tuple[Field[CaseResult], ...]:
    """The columns of one placement: time and its interval, what was asked for, bandwidths and the check."""
    asked = [
        _FIELDS.get(word)
        or Field(_SHORT.get(word, word), partial(_statistic, word), 8, unit="" if word == "cv" else "(us)")
        for word in show
        if word != "memory"  # a line below the table
    ]
    return (*FIRST, *asked, *LAST)


# Rows of groups of ranks, and what is said about who exchanges what. Pure.

GROUP_WIDTH: Final = 6  # of the column of their names
SUMMARY_NOTE: Final = (
    "groups: all = the slowest group of each sample; min, median, max = of each column over the groups, so"
    " time and bandwidth may come from different groups"
)
_SUMMARIES: Final[Mapping[str, Callable[[Iterable[float]], float]]] = {
    "min": min, "median": median, "max": max,
}  # fmt: skip
_SUMMARIZED: Final = ("time_ns", "algbw_gb_per_s", "busbw_gb_per_s", "wrong")
_OF_A_GROUP: Final = (*_SUMMARIZED, "low_ns", "high_ns", "mean_ns")
_SHOWN_GROUPS: Final = 4
_SHOWN_RANKS: Final = 8

GroupRow = tuple[str, int, int, list[CaseResult]]


def is_split(groups: Sequence[object]) -> bool:
    """Whether rows of groups say more than the case's own: one group is the case."""
    return len(groups) > 1


def group_rows(case: Case, results: Sequence[CaseResult]) -> Iterator[GroupRow]:
    """(name, size in bytes, count, results by placement) of each group, then of the summaries."""
    parts = next((result.groups for result in results if result.groups), ())
    for number, part in enumerate(parts):
        count = case.count if case.row.variable is not None else case.shape(part.ranks).call_count
        yield str(number), part.size_bytes, count, [_of_group(result, number) for result in results]
    for name, summary in _SUMMARIES.items() if parts else ():
        yield name, case.size_bytes, case.count, [_summary(result, summary) for result in results]


def _of_group(result: CaseResult, number: int) -> CaseResult:
    """A group's result in the form of a case's, without what only the case has."""
    numbers = {}
    if result.groups:
        numbers = {name: getattr(result.groups[number], name) for name in _OF_A_GROUP}
        numbers |= {"samples": result.samples, "tau": result.tau}
    return _with(result, numbers)


def _summary(result: CaseResult, of: Callable[[Iterable[float]], float]) -> CaseResult:
    numbers: dict[str, Any] = {}
    for name in _SUMMARIZED:
        values = [found for part in result.groups if (found := getattr(part, name)) is not None]
        if values:
            numbers[name] = int(of(values)) if name == "wrong" else of(values)
    return _with(result, numbers)


def _with(result: CaseResult, numbers: Mapping[str, Any]) -> CaseResult:
    # Two calls a sample: then no column claims percentiles of single ones.
    return CaseResult(result.case, result.status, calls_per_sample=2, **numbers)


def pattern_words(plan: Plan, ranks: int) -> list[str]:
    """Header lines about groups, counts, pairs and the data, where they are not the plain ones."""
    lines = []
    own = [f"ranks {_ranks(each.ranks)} run {each.what}" for each in plan.beside if each.ranks]
    if own:
        lines.append(f"beside   {', '.join(own)}; ranks {_ranks(plan.groups[0])} are measured")
    elif plan.groups:
        lines.append(f"groups   {group_words(plan, ranks)}")
    lines += [f"counts   {words}" for words in _count_words(plan)]
    if plan.pairs:
        pairs = (f"{source}->{target}" for source, target in plan.pairs)
        lines.append(f"pairs    {first_of(pairs, _SHOWN_RANKS)}")
    if plan.data != "exact":
        lines.append(f"data     {plan.data}, seed {plan.seed}")
    return lines


def _count_words(plan: Plan) -> Iterator[str]:
    """Whose tables a run has, and how uneven they are."""
    for name in dict.fromkeys(table.collective for table in plan.counts):
        tables = [table for table in plan.counts if table.collective == name]
        uneven = sorted(table.imbalance for table in tables)
        times = " to ".join(dict.fromkeys(f"{each:.2f}" for each in (uneven[0], uneven[-1])))
        many = f"{len(tables)} matrices, " if len(tables) > 1 else ""
        yield f"{name}: {tables[0].origin}; {many}the busiest rank moves {times} times the mean"


def group_words(plan: Plan, ranks: int) -> str:
    """How the ranks are split: the first groups, and who sits out."""
    parts = [_ranks(members) for members in plan.groups[:_SHOWN_GROUPS]]
    parts += ["..."] if len(plan.groups) > _SHOWN_GROUPS else []
    out = ranks - sum(map(len, plan.groups))
    idle = f"; {out} rank{'s' if out > 1 else ''} in no group sit{'' if out > 1 else 's'} out" if out else ""
    return f"{len(plan.groups)} at once, of ranks {' | '.join(parts)}{idle}"


def _ranks(members: Sequence[int]) -> str:
    shown = ",".join(map(str, members[:_SHOWN_RANKS]))
    return f"{shown},..." if len(members) > _SHOWN_RANKS else shown
