"""Arms against a baseline: a verdict for every operation, size and placement.

The rule. FASTER or SLOWER: the 95 % interval of the ratio over launches lies beyond half of ``delta``, and q,
the false-discovery rate over all verdicts of the comparison, is below 1 %. Else SAME: the interval leaves no
difference above ``detect``. Else AMBIGUOUS: it cannot tell below what the interval leaves.

Only launches show what the next launch will do, and few launches show it badly. So the interval has what is
known of launches of this kind (``judge.scatter``), moderated by what these show. What their own scatter
contradicts is replaced by that, over the sizes that scatter alike. A difference is never pooled over sizes:
they share what is odd about a launch.

Where caches may hold what calls of one side rotated through, and not the other's, no verdict is given that
this alone can explain.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import Final

from busbw.errors import UsageError
from busbw.judge.compare_arms import Arm, CaseKey, Observed
from busbw.judge.compare_notes import (
    cached,
    differences,
    failures_of,
    left_out,
    notes_of,
    varied_words,
)
from busbw.judge.rotation import Nearer
from busbw.judge.scatter import Prior, Scatter, SizeClass, beside, size_class
from busbw.model.result import Status
from busbw.stats.fdr import benjamini_hochberg
from busbw.stats.ratio import Difference, Ratio, in_groups, in_pairs, of_class, of_neighbours, ratio

UNLIKE: Final = "the two sides timed different things: ranked only"


class Verdict(StrEnum):
    """A candidate against the baseline, for one case."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    SAME = "SAME"
    AMBIGUOUS = "AMBIGUOUS"
    FAILED = "FAILED"  # the candidate has no number: it failed, hung, or its data were wrong
    MISSING = "MISSING"  # measured on one side only


@dataclass(frozen=True)
class Rule:
    """``delta``: a relative difference that matters; ``q``: false discoveries among those called different;
    ``detect``: what SAME rules out at least, where that is more than ``delta``.
    """

    delta: float = 0.02
    q: float = 0.01
    detect: float = 0.05


@dataclass(frozen=True)
class ComparedCase:
    """One candidate and case. ``speedup`` is the baseline's time / the candidate's (geometric means over
    launches), with its 95 % interval; ``bound`` is the relative difference above which there is none.
    ``rank`` is the candidate's place among all arms that have the case, 1 the fastest. ``note`` says what is
    not the same on both sides, on purpose. ``lost``: launches without a number, which have no part in the
    verdict. ``cached`` is the side (first the baseline) that caches may help; ``unlike``: not the same thing
    was timed. ``known`` is the scatter that the interval starts from; ``is_own``: these launches' own.
    ``sampling`` is the standard error of one launch by its samples, 0 where that is not known.
    """

    key: CaseKey
    arm: str
    verdict: Verdict
    why: str = ""
    baseline_ns: float | None = None
    time_ns: float | None = None
    baseline_busbw_gb_per_s: float | None = None
    busbw_gb_per_s: float | None = None
    ratio: Ratio | None = None
    known: Scatter | None = None
    is_own: bool = False
    sampling: float = 0.0
    q: float | None = None
    rank: int = 0
    ranked: int = 0
    note: str = ""
    lost: str = ""
    cached: Nearer = Nearer.NEITHER
    unlike: bool = False

    @property
    def reasons(self) -> str:
        """Why, and what is lost."""
        return "; ".join(filter(None, (self.why, self.lost)))

    @property
    def speedup(self) -> float | None:
        """1.1: the baseline takes 10 % longer."""
        return None if self.ratio is None else math.exp(self.ratio.seen.centre)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the speedup."""
        return None if self.ratio is None else (math.exp(self.ratio.low), math.exp(self.ratio.high))

    @property
    def assumed(self) -> float | None:
        """The scatter of launches that is assumed, where one launch a side and no history show any."""
        is_shown = self.ratio is None or self.ratio.seen.degrees or self.is_own
        if is_shown or self.known is None or not self.known.is_default:
            return None
        return self.known.deviation

    @property
    def bound(self) -> float | None:
        """0.02: a difference above 2 % would have shown."""
        return None if self.ratio is None else self.ratio.bound


@dataclass(frozen=True)
class Comparison:
    """All candidates against one baseline. ``flags`` are reasons why times are not of the same thing: then no
    verdict is more than AMBIGUOUS. ``notes`` are for reading.
    """

    baseline: Arm
    candidates: tuple[Arm, ...]
    rule: Rule
    rows: tuple[ComparedCase, ...]
    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def count(self, verdict: Verdict) -> int:
        """Rows of a verdict."""
        return sum(row.verdict is verdict for row in self.rows)


def compare(arms: Sequence[Arm], rule: Rule | None = None, prior: Prior | None = None) -> Comparison:
    """The first arm is the baseline; ``prior`` is how launches scatter there. Raises UsageError for worlds
    that cannot be compared, or no arms.
    """
    return compare_all([arms], rule, [prior])[0]


def compare_all(
    groups: Sequence[Sequence[Arm]],
    rule: Rule | None = None,
    priors: Sequence[Prior | None] | None = None,
) -> tuple[Comparison, ...]:
    """Several comparisons that are read together, as those of one series on several numbers of nodes: each
    has its baseline and its prior (None: the defaults), and q is over the rows of all. Raises UsageError as
    ``compare`` does.
    """
    rule = rule or Rule()
    known = priors or [None] * len(groups)
    made = [_unjudged(arms, rule, prior) for arms, prior in zip(groups, known, strict=True)]
    rows = iter(_judged([row for each in made for row in each.rows], rule))
    return tuple(replace(each, rows=tuple(islice(rows, len(each.rows)))) for each in made)


def _unjudged(arms: Sequence[Arm], rule: Rule, prior: Prior | None) -> Comparison:
    if len(arms) < 2:
        raise UsageError("nothing to compare with", hint="name two runs or more; the first is the baseline")
    baseline, *candidates = arms
    for arm in candidates:
        _refuse_other_world(baseline, arm)
    prior = beside(prior or Prior(baseline.on_device), arms)
    rows = [row for arm in candidates for row in _rows(baseline, arm, prior)]
    return Comparison(
        baseline,
        tuple(candidates),
        rule,
        tuple(_ranked(rows, arms)),
        tuple(text for arm in candidates for text in differences(baseline, arm)),
        (
            *failures_of(baseline),
            *left_out(baseline),
            *(note for arm in candidates for note in notes_of(baseline, arm)),
        ),
    )


def _refuse_other_world(baseline: Arm, arm: Arm) -> None:
    if baseline.ranks and arm.ranks and baseline.ranks != arm.ranks:
        raise UsageError(
            f"{baseline.name} has {baseline.ranks} ranks, {arm.name} has {arm.ranks}",
            hint="add --scaling to compare runs with different numbers of ranks",
        )


def _rows(baseline: Arm, arm: Arm, prior: Prior) -> list[ComparedCase]:
    """Of one candidate, with ratios and without verdicts."""
    paired = bool(baseline.series) and baseline.series == arm.series
    varied = varied_words(baseline, arm)
    unlike = bool(differences(baseline, arm))
    rows, seen = [], {}
    for key in sorted(baseline.cases.keys() | arm.cases.keys()):
        row = replace(_row(key, baseline, arm), note=varied, cached=cached(baseline, arm, key), unlike=unlike)
        if row.verdict is Verdict.AMBIGUOUS:
            seen[key] = _difference(baseline.cases[key], arm.cases[key], paired=paired)
        rows.append(row)
    known = _known(seen, prior)
    errors = {key: _sampling(baseline.cases[key], arm.cases[key]) for key in seen}
    return [
        _with_ratio(row, seen[row.key], known, errors[row.key]) if row.key in seen else row for row in rows
    ]


def _known(
    seen: dict[CaseKey, Difference], prior: Prior
) -> dict[tuple[str, SizeClass], tuple[Scatter, bool]]:
    """The scatter of launches of each operation and class of sizes, and whether it is these launches' own."""
    alike: dict[tuple[str, SizeClass], list[CaseKey]] = defaultdict(list)
    for key in seen:
        alike[key.collective, size_class(key.size_bytes)].append(key)
    found = {}
    for kind, keys in alike.items():
        known = prior.of(kind[0], keys[0].size_bytes)
        own = of_class(known.deviation, [seen[key] for key in keys])
        if known.is_default and not any(seen[key].degrees for key in keys):
            own = of_neighbours(known.deviation, _curves(keys, seen))
        found[kind] = (known, False) if own == known.deviation else (Scatter(own), True)
    return found


def _curves(keys: Iterable[CaseKey], seen: Mapping[CaseKey, Difference]) -> list[list[float]]:
    """The differences of each kind of case, by size."""
    curves: dict[CaseKey, list[float]] = defaultdict(list)
    for key in sorted(keys):
        curves[replace(key, size_bytes=0)].append(seen[key].centre)
    return list(curves.values())


def _with_ratio(
    row: ComparedCase,
    seen: Difference,
    known: dict[tuple[str, SizeClass], tuple[Scatter, bool]],
    error: float,
) -> ComparedCase:
    scatter, is_own = known[row.key.collective, size_class(row.key.size_bytes)]
    made = ratio(seen, max(scatter.deviation, error))
    return replace(row, ratio=made, known=scatter, is_own=is_own, sampling=error)


def _sampling(before: Observed, after: Observed) -> float:
    """The relative standard error of the worse launch by its samples, where each side has one."""
    return max(before.error_share or 0.0, after.error_share or 0.0)


def _row(key: CaseKey, baseline: Arm, arm: Arm) -> ComparedCase:
    before, after = baseline.cases.get(key), arm.cases.get(key)
    row = ComparedCase(
        key,
        arm.name,
        Verdict.AMBIGUOUS,
        baseline_ns=before.time_ns if before is not None else None,
        time_ns=after.time_ns if after is not None else None,
        baseline_busbw_gb_per_s=before.busbw_gb_per_s if before is not None else None,
        busbw_gb_per_s=after.busbw_gb_per_s if after is not None else None,
    )
    if after is None:
        failed = arm.failed(key)
        return replace(
            row, verdict=Verdict.FAILED if failed else Verdict.MISSING, why=failed or "not measured"
        )
    if not after.times_ns:
        ran = after.status is Status.NOT_RUN and not after.error
        return replace(row, verdict=Verdict.MISSING if ran else Verdict.FAILED, why=after.error)
    if before is None or not before.times_ns:
        failed = before.error if before is not None else baseline.failed(key)
        why = f"the baseline failed: {failed}" if failed else "not measured by the baseline"
        return replace(row, verdict=Verdict.MISSING, why=why)
    lost = (f"{one.name}: {seen.error}" for one, seen in ((baseline, before), (arm, after)) if seen.error)
    return replace(row, lost="; ".join(lost))


def _difference(before: Observed, after: Observed, *, paired: bool) -> Difference:
    if paired and before.blocks and after.blocks:
        first, second = (dict(zip(side.blocks, side.times_ns, strict=True)) for side in (before, after))
        if both := sorted(first.keys() & second.keys()):
            return in_pairs([first[block] for block in both], [second[block] for block in both])
    return in_groups(before.times_ns, after.times_ns)


def _judged(rows: list[ComparedCase], rule: Rule) -> list[ComparedCase]:
    """Verdicts of all rows together, since q is about all of them; what is ``unlike`` has no part in it."""
    p_values = {i: row.ratio.p for i, row in enumerate(rows) if row.ratio is not None and not row.unlike}
    q_of = dict(zip(p_values, benjamini_hochberg(list(p_values.values())), strict=True))
    return [
        row if row.ratio is None else _unless_cached(_decided(row, row.ratio, q_of.get(i), rule))
        for i, row in enumerate(rows)
    ]


def _decided(row: ComparedCase, made: Ratio, q: float | None, rule: Rule) -> ComparedCase:
    if row.unlike or q is None:
        return replace(row, why=UNLIKE)
    edge = math.log1p(rule.delta / 2)
    if (made.low > edge or made.high < -edge) and q < rule.q:
        return replace(row, q=q, verdict=Verdict.FASTER if made.low > 0 else Verdict.SLOWER)
    if made.bound <= max(rule.delta, rule.detect):
        return replace(row, q=q, verdict=Verdict.SAME)
    return replace(row, q=q)


# What is not decided where caches help the baseline, or the candidate: what they alone can explain.
_EXPLAINED: Final = {
    Nearer.NEITHER: (),
    Nearer.FIRST: (Verdict.SLOWER, Verdict.SAME),
    Nearer.SECOND: (Verdict.FASTER, Verdict.SAME),
}


def _unless_cached(row: ComparedCase) -> ComparedCase:
    if row.verdict not in _EXPLAINED[row.cached]:
        return row
    who = "the baseline" if row.cached is Nearer.FIRST else "the candidate"
    why = f"looks {row.verdict}, but caches may hold the buffers of {who} only"
    return replace(row, verdict=Verdict.AMBIGUOUS, why=why)


def _ranked(rows: list[ComparedCase], arms: Sequence[Arm]) -> list[ComparedCase]:
    """Places by time, the baseline's among them."""
    times: dict[CaseKey, list[float]] = {}
    for arm in arms:
        for key, seen in arm.cases.items():
            if seen.time_ns is not None:
                times.setdefault(key.plain, []).append(seen.time_ns)
    return [
        replace(row, rank=1 + sum(time < row.time_ns for time in among), ranked=len(among))
        if row.time_ns is not None and (among := times[row.key.plain])
        else row
        for row in rows
    ]
