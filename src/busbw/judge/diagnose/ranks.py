"""Is every rank the same: whose times differ, and who comes last."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median
from typing import Final

from busbw.judge.diagnose import profiled
from busbw.judge.diagnose.subject import Subject, concluded, hint_of_tool
from busbw.judge.ranks import Order, RankTable, rank_table
from busbw.model.case import Case
from busbw.model.conclusion import Answer, Conclusion, Fact, Question
from busbw.model.result import CaseResult
from busbw.units import NS_PER_US, format_share, format_size, format_time

_FORMULA: Final = "(largest - smallest) / median, of the ranks' medians"
# A rank is named when the same one stands out in most cases, and more often than once.
_FEWEST_CASES: Final = 2
# Ranks are called alike only where a difference of this size would have been seen in most cases.
_WOULD_BE_SEEN: Final = 0.10
_TELLING: Final = 3  # ranks, of which one can be the odd one


@dataclass(frozen=True)
class _Compared:
    """The ranks of one case. ``bound`` is how far, relative to the median rank, chance takes one of so many
    ranks: their interval's half width at 95 %, widened to all ranks together; and no less than the precision
    that the run was asked for. None without an interval, and where ranks have different parts.
    """

    case: Case
    table: RankTable
    spread: float
    bound: float | None
    odd: tuple[int, ...]

    @property
    def excess(self) -> float | None:
        """The spread over what chance makes it, on both sides; None where that is not to be judged."""
        return None if self.bound is None else self.spread / (2 * self.bound)


def conclusions(subject: Subject) -> Iterator[Conclusion]:
    """See ``diagnose.engine.Rule``."""
    if subject.record.profiled:
        yield profiled.untrusted("ranks.profiled")
        return
    if subject.ranks == 1:
        yield concluded("one rank waits for nobody", check="ranks.spread", answer=Answer.YES)
        return
    if not len(subject.digests):
        source = subject.record.source
        yield concluded(
            "the times of single ranks are not known",
            hint=hint_of_tool(source.tool, Question.RANKS) if source is not None else "",
            check="ranks.spread",
        )
        return
    known = frozenset(subject.digests["case"].tolist())
    compared = [_compare(subject, case, result) for case, result in subject.busy if case.index in known]
    if not compared:
        yield concluded("no case has a time, so ranks cannot be compared", check="ranks.spread")
        return
    yield _spread(subject, compared)
    yield from _odd(compared)
    yield _latest(subject, compared)


def _compare(subject: Subject, case: Case, result: CaseResult) -> _Compared:
    table = rank_table(subject.record, case.index, subject.samples, subject.digests)
    medians = [rank.median_ns for rank in table.ranks]
    middle = median(medians) or 1.0
    spread = (max(medians) - min(medians)) / middle
    half = result.half_width
    if half is None or table.order is Order.ROOTED:
        return _Compared(case, table, spread, None, ())
    normal = NormalDist()
    chance = half * normal.inv_cdf(1 - 0.025 / len(medians)) / normal.inv_cdf(0.975)
    bound = max(chance, subject.record.plan.limits.precision)
    odd = tuple(rank.rank for rank in table.ranks if abs(rank.median_ns / middle - 1) > bound)
    return _Compared(case, table, spread, bound, odd)


def _spread(subject: Subject, compared: Sequence[_Compared]) -> Conclusion:
    """Each case against its own bound. A case or two beyond it are bound to be among many; ranks that differ
    in most are a finding. Where noise would hide it, that none is beyond says nothing.
    """
    known = [each for each in compared if each.excess is not None]
    if not known:
        worst = max(compared, key=lambda each: each.spread)
        why, hint = "without an interval this is not judged", "leave -n out, or give more calls"
        if all(each.table.order is Order.ROOTED for each in compared):
            why = "ranks of a rooted operation have different parts, and need not take the same time"
            hint = "an all_reduce gives all ranks the same part"
        claim = f"{_differ(worst, ' at most,')}; {why}"
        return _of_spread(subject, worst, claim, Answer.UNDECIDED, _FORMULA, hint)
    beyond = [each for each in known if (each.excess or 0.0) > 1]
    if not beyond:
        worst = max(known, key=lambda each: each.spread)
        claim, answer = f"{_differ(worst, ' at most,')}, within the noise", Answer.YES
        hidden = median(2 * (each.bound or 0.0) for each in known)
        if hidden > _WOULD_BE_SEEN:
            claim += f", which hides differences up to {format_share(hidden)} in half of the cases"
            answer = Answer.UNDECIDED
    else:
        worst = max(beyond, key=lambda each: each.excess or 0.0)
        claim = f"{_differ(worst)}, and in {len(beyond)} of {len(known)} cases by more than the noise"
        answer = Answer.NO if 2 * len(beyond) > len(known) else Answer.UNDECIDED
    hint = "`busbw show RUN --ranks` has every rank; look at placement, clocks and neighbours"
    evidence = f"{_FORMULA}; up to {format_share(2 * (worst.bound or 0.0))} they are the same there"
    return _of_spread(subject, worst, claim, answer, evidence, hint if answer is Answer.NO else "")


def _differ(each: _Compared, how: str = "") -> str:
    where = f"{each.case.collective} {format_size(each.case.size_bytes)}"
    return f"ranks differ by {format_share(each.spread)}{how} at {where}"


def _of_spread(
    subject: Subject, each: _Compared, claim: str, answer: Answer, evidence: str, hint: str
) -> Conclusion:
    return concluded(
        claim,
        evidence=evidence,
        hint=hint,
        check="ranks.spread",
        answer=answer,
        facts=(
            Fact("spread", round(each.spread, 5), source=_FORMULA),
            Fact("slowest rank", each.table.longest.rank, source="by its median"),
            Fact("quickest rank", each.table.shortest.rank, source="by its median"),
            Fact("ranks", subject.ranks),
        ),
        case=each.case.index,
    )


def _odd(compared: Sequence[_Compared]) -> Iterator[Conclusion]:
    counts = Counter(rank for each in compared for rank in each.odd)
    named = {
        rank: count
        for rank, count in counts.items()
        if count >= _FEWEST_CASES and 2 * count > len(compared) and len(compared[0].table.ranks) >= _TELLING
    }
    # Where most ranks stand out, it is not they who are odd.
    if not named or 2 * len(named) >= len(compared[0].table.ranks):
        return
    places = {rank.rank: rank.host for rank in compared[0].table.ranks}
    by_host: dict[str, list[int]] = defaultdict(list)
    for rank in sorted(named):
        by_host[places[rank]].append(rank)
    text = ", ".join(f"rank {', '.join(map(str, ranks))} ({host})" for host, ranks in by_host.items())
    first = min(named)
    yield concluded(
        f"{text}: times differ from the others' in most of {len(compared)} cases",
        evidence="each rank's median against the median rank's, beyond what its interval allows",
        hint="`busbw show RUN --ranks` has every rank; look at that host's clocks, NICs and neighbours",
        rank=first if len(named) == 1 else None,
        host=places[first] if len(by_host) == 1 else "",
        check="ranks.odd",
        answer=Answer.NO,
        facts=tuple(
            Fact(f"rank {rank}", count, f"of {len(compared)} cases") for rank, count in named.items()
        ),
    )


def _latest(subject: Subject, compared: Sequence[_Compared]) -> Conclusion:
    told = [each for each in compared if each.table.order is Order.TOLD]
    if not told:
        return concluded(
            "back-to-back calls, or ranks with different parts, cannot show which rank is late",
            hint="measure single calls: --mode latency",
            check="ranks.late",
        )
    late = [(each.case, each.table.latest) for each in told if each.table.latest is not None]
    named: Counter[int] = Counter(latest.rank for _, latest in late if latest.certain)
    rank, count = named.most_common(1)[0] if named else (-1, 0)
    if count < _FEWEST_CASES or 2 * count <= len(told):
        return concluded(
            "no rank comes last for certain in most cases",
            evidence="the late rank has the shortest time: the others wait for it",
            check="ranks.late",
            answer=Answer.YES,
            facts=(Fact("cases with a late rank", len(late), f"of {len(told)}"),),
        )
    case, longest = max(
        ((case, latest) for case, latest in late if latest.rank == rank), key=lambda pair: pair[1].wait_ns
    )
    on_purpose = subject.record.plan.timing.arrival != "none"
    return concluded(
        f"rank {rank} comes last in {count} of {len(told)} cases; the others wait up to"
        f" {format_time(longest.wait_ns, 4)} for it ({case.collective} {format_size(case.size_bytes)})",
        evidence="its times are the shortest of all ranks'"
        + ("; delayed by --arrival" if on_purpose else ""),
        hint="" if on_purpose else "look at that rank's core, its host's load and interrupts",
        rank=rank,
        host=next(each.host for each in told[0].table.ranks if each.rank == rank),
        check="ranks.late",
        answer=Answer.ASIDE if on_purpose else Answer.NO,
        facts=(
            Fact("longest wait", round(longest.wait_ns / NS_PER_US, 3), "us", "median over samples"),
            Fact("call itself", round(longest.call_ns / NS_PER_US, 3), "us", "median of the shortest time"),
        ),
        case=case.index,
    )
