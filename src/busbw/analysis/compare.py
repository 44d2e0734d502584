"""Arms against a baseline: a verdict for every operation, size and placement.

The rule. FASTER or SLOWER: the 95 % interval of the ratio over launches lies beyond half of ``delta``, and q,
the false-discovery rate over all verdicts of the comparison, is below 1 %. Else SAME: the interval lies
within +-delta. Else AMBIGUOUS, with how many more blocks would do.

Only launches show what the next launch will do. One launch of each side gives AMBIGUOUS, whatever its
samples say: two launches of one thing differ by more than their samples (docs/guides/compare.md has
measurements). So do several launches of each that were not in turn: what drifts between two series is in
their ratio and not in its interval, unless the user knows by how much launches at different times differ. A
single number, as a log has it, is ranked and no more.

Where caches may hold what calls of one side rotated through, and not the other's, no verdict is given that
this alone can explain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import Final

from busbw.analysis.compare_arms import Arm, CaseKey, that_exist
from busbw.analysis.compare_notes import (
    cached,
    counterparts,
    differences,
    failures_of,
    left_out,
    notes_of,
    other_patterns,
    varied_words,
)
from busbw.analysis.compare_places import of_all
from busbw.analysis.observed import Observed
from busbw.analysis.rotation import Nearer
from busbw.errors import UsageError
from busbw.model.result import Status
from busbw.stats.fdr import benjamini_hochberg
from busbw.stats.ratio import (
    LEAST_KNOWN,
    MOST_BLOCKS,
    Basis,
    Ratio,
    more_blocks,
    paired_ratio,
    sample_ratio,
    single_ratio,
    spread_ratio,
    unpaired_ratio,
)

SINGLE_WORDS: Final = "single observation, no interval"
NOT_IN_TURN: Final = (
    "its launches were not in turn with the baseline's: what drifted is in the ratio; measure them as setups"
    " of one file, or give --launch-spread"
)
LEAST_BLOCKS: Final = 6  # below it there is no interval at 95 % (``stats.ranking``)


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
    ``launch_spread``: relative standard deviation between launches at different times, where the user knows
    it.
    """

    delta: float = 0.02
    q: float = 0.01
    launch_spread: float | None = None


@dataclass(frozen=True)
class Row:
    """One candidate and case. ``speedup`` is the baseline's time / the candidate's, with its 95 % interval;
    ``rank`` is the candidate's place among all arms that have the case, 1 the fastest. ``note`` says what is
    not the same on both sides, on purpose. ``lost``: launches without a number, which have no
    part in the verdict. ``cached`` is the side (first the baseline) that caches may help; ``unlike``: not
    the same thing was timed.
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
    q: float | None = None
    more_blocks: int | None = None
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
        return None if self.ratio is None else math.exp(self.ratio.centre)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the speedup."""
        if self.ratio is None or self.ratio.low is None or self.ratio.high is None:
            return None
        return math.exp(self.ratio.low), math.exp(self.ratio.high)


@dataclass(frozen=True)
class Comparison:
    """All candidates against one baseline. ``flags`` are reasons why times are not of the same thing: then no
    verdict is more than AMBIGUOUS. ``notes`` are for reading.
    """

    baseline: Arm
    candidates: tuple[Arm, ...]
    rule: Rule
    rows: tuple[Row, ...]
    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def count(self, verdict: Verdict) -> int:
        """Rows of a verdict."""
        return sum(row.verdict is verdict for row in self.rows)


def compare(arms: Sequence[Arm], rule: Rule | None = None) -> Comparison:
    """The first arm is the baseline. Raises UsageError for worlds that cannot be compared, or no arms."""
    return compare_all([arms], rule)[0]


def compare_all(groups: Sequence[Sequence[Arm]], rule: Rule | None = None) -> tuple[Comparison, ...]:
    """Several comparisons that are read together, as those of one series on several numbers of nodes: each
    has its baseline, and q is over the rows of all. Raises UsageError as ``compare`` does.
    """
    rule = rule or Rule()
    made = [_unjudged(arms, rule) for arms in groups]
    rows = iter(_judged([row for each in made for row in each.rows], rule))
    return tuple(replace(each, rows=tuple(islice(rows, len(each.rows)))) for each in made)


def _unjudged(arms: Sequence[Arm], rule: Rule) -> Comparison:
    if len(arms) < 2:
        raise UsageError("nothing to compare with", hint="name two runs or more; the first is the baseline")
    baseline, *candidates = arms = that_exist(arms)
    for arm in candidates:
        _refuse_other_world(baseline, arm)
    rows = [row for arm in candidates for row in _rows(baseline, arm, rule)]
    return Comparison(
        baseline,
        tuple(candidates),
        rule,
        tuple(_ranked(rows, arms)),
        tuple(
            text
            for arm in candidates
            for text in (*differences(baseline, arm), *other_patterns(baseline, arm))
        ),
        (
            *of_all(arms),
            *failures_of(baseline),
            *left_out(baseline),
            *(note for arm in candidates for note in notes_of(baseline, arm)),
        ),
    )


def _refuse_other_world(baseline: Arm, arm: Arm) -> None:
    if baseline.ranks and arm.ranks and baseline.ranks != arm.ranks:
        raise UsageError(
            f"{baseline.name} has {baseline.ranks} ranks, {arm.name} has {arm.ranks}",
            hint="add --scaling to see worlds of several sizes below one another",
        )


def _rows(baseline: Arm, arm: Arm, rule: Rule) -> list[Row]:
    paired = bool(baseline.series) and baseline.series == arm.series
    varied = varied_words(baseline, arm)
    unlike = bool(differences(baseline, arm))
    others = counterparts(baseline, arm)
    return [
        replace(
            _row(others.get(key, key), key, baseline, arm, rule, paired=paired),
            note=varied,
            cached=cached(baseline, arm, key),
            unlike=unlike or key in others,
        )
        for key in sorted((baseline.cases.keys() | arm.cases.keys()) - set(others.values()))
    ]


def _row(theirs: CaseKey, key: CaseKey, baseline: Arm, arm: Arm, rule: Rule, *, paired: bool) -> Row:
    """``theirs`` is the baseline's case."""
    before, after = baseline.cases.get(theirs), arm.cases.get(key)
    row = Row(
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
        failed = before.error if before is not None else baseline.failed(theirs)
        why = f"the baseline failed: {failed}" if failed else "not measured by the baseline"
        return replace(row, verdict=Verdict.MISSING, why=why)
    lost = (f"{one.name}: {seen.error}" for one, seen in ((baseline, before), (arm, after)) if seen.error)
    return replace(row, ratio=_ratio(before, after, rule, paired=paired), lost="; ".join(lost))


def _ratio(before: Observed, after: Observed, rule: Rule, *, paired: bool) -> Ratio:
    if paired and before.blocks and after.blocks:
        first, second = (
            dict(zip(before.blocks, before.times_ns, strict=True)),
            dict(zip(after.blocks, after.times_ns, strict=True)),
        )
        both = sorted(first.keys() & second.keys())
        if both:
            return paired_ratio([first[block] for block in both], [second[block] for block in both])
    if rule.launch_spread is not None:
        return spread_ratio(before.times_ns, after.times_ns, rule.launch_spread)
    if len(before.times_ns) > 1 or len(after.times_ns) > 1:
        return unpaired_ratio(before.times_ns, after.times_ns)
    if before.interval is not None and after.interval is not None:
        return sample_ratio((before.times_ns[0], *before.interval), (after.times_ns[0], *after.interval))
    return single_ratio(before.times_ns[0], after.times_ns[0])


def _judged(rows: list[Row], rule: Rule) -> list[Row]:
    """Verdicts of all rows together, since q is about all of them; what is ``unlike`` and what cannot decide
    have no part in it.
    """
    p_values = {
        i: row.ratio.p
        for i, row in enumerate(rows)
        if row.ratio is not None and row.ratio.decides and row.ratio.p is not None and not row.unlike
    }
    q_of = dict(zip(p_values, benjamini_hochberg(list(p_values.values())), strict=True))
    beyond = sum(_is_beyond(rows[i].ratio, rule) for i in p_values)
    # The largest p that can still be called, if as many cases differ as now seem to.
    p_needed = rule.q * max(beyond, 1) / max(len(p_values), 1)
    return [
        row if row.ratio is None else _unless_cached(_decided(row, row.ratio, q_of.get(i), rule, p_needed))
        for i, row in enumerate(rows)
    ]


def _is_beyond(ratio: Ratio | None, rule: Rule) -> bool:
    if ratio is None or not ratio.decides or ratio.low is None or ratio.high is None:
        return False
    edge = math.log1p(rule.delta / 2)
    return ratio.low > edge or ratio.high < -edge


_UNDECIDING: Final = {
    Basis.SINGLE: SINGLE_WORDS,
    Basis.SAMPLES: (
        "one launch of each: launches differ more than samples; measure them as setups of one file, or give"
        " --launch-spread"
    ),
    Basis.LAUNCHES: NOT_IN_TURN,
}


def _undeciding(ratio: Ratio, rule: Rule) -> str:
    if ratio.beyond_spread is None or rule.launch_spread is None:
        return _UNDECIDING[ratio.basis]
    seen, given = (f"{100 * spread:.3g}%" for spread in (ratio.beyond_spread, rule.launch_spread))
    return f"launches of one side have a spread of {seen}: more than the {given} that was given allows"


def _decided(row: Row, ratio: Ratio, q: float | None, rule: Rule, p_needed: float) -> Row:
    if row.unlike:
        return replace(row, q=q, why="not the same thing was timed (see above): ranked only")
    if not ratio.decides:
        return replace(row, q=q, why=_undeciding(ratio, rule))
    if _is_beyond(ratio, rule) and q is not None and q < rule.q:
        return replace(row, q=q, verdict=Verdict.FASTER if ratio.centre > 0 else Verdict.SLOWER)
    far = math.log1p(rule.delta)
    if ratio.low is not None and ratio.high is not None and -far < ratio.low and ratio.high < far:
        return replace(row, q=q, verdict=Verdict.SAME)
    more = more_blocks(ratio, rule.delta, p_needed)
    return replace(row, q=q, more_blocks=more, why=_why(ratio, q, rule, more))


# What is not decided where caches help the baseline, or the candidate: what they alone can explain.
_EXPLAINED: Final = {
    Nearer.NEITHER: (),
    Nearer.FIRST: (Verdict.SLOWER, Verdict.SAME),
    Nearer.SECOND: (Verdict.FASTER, Verdict.SAME),
}


def _unless_cached(row: Row) -> Row:
    if row.verdict not in _EXPLAINED[row.cached]:
        return row
    who = "the baseline" if row.cached is Nearer.FIRST else "the candidate"
    why = f"looks {row.verdict}, but caches may hold the buffers of {who} only (see above)"
    return replace(row, verdict=Verdict.AMBIGUOUS, why=why)


def _why(ratio: Ratio, q: float | None, rule: Rule, more: int | None) -> str:
    if ratio.low is None:
        text = f"{min(ratio.n)} blocks give no interval, {LEAST_BLOCKS} would"
    elif _is_beyond(ratio, rule):
        text = f"q {q:.2g} is not below {rule.q:g}"
    else:
        text = f"neither beyond {rule.delta / 2:.1%} nor within {rule.delta:.0%}"
    if more is not None:
        return f"{text}; about {more} more blocks would decide"
    return text if min(ratio.n) < LEAST_KNOWN else f"{text}; more than {MOST_BLOCKS} blocks would be needed"


def _ranked(rows: list[Row], arms: Sequence[Arm]) -> list[Row]:
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
