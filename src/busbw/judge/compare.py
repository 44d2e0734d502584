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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import Final

from busbw.errors import UsageError
from busbw.judge.compare_arms import BUFFER_FLAGS, DEFINING_FLAGS, Arm, CaseKey, Observed, without_flags
from busbw.judge.measured_with import otherwise
from busbw.judge.rotation import Nearer, nearer
from busbw.judge.scatter import Prior, Scatter, SizeClass, beside, size_class
from busbw.model.result import Status
from busbw.plan.flags.flag import flag_of
from busbw.plan.setups import on_or_off
from busbw.stats.ratio import (
    Difference,
    Ratio,
    benjamini_hochberg,
    in_groups,
    in_pairs,
    of_class,
    of_neighbours,
    ratio,
)
from busbw.units import first_of, format_flag_size, format_size

UNLIKE: Final = "the two sides timed different things: ranked only"
_MOST_TOLD: Final = 6  # variables of a run that a note names


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
    groups: Sequence[Sequence[Arm]], rule: Rule | None = None, priors: Sequence[Prior | None] | None = None
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
        if baseline.ranks and arm.ranks and baseline.ranks != arm.ranks:
            raise UsageError(
                f"{baseline.name} has {baseline.ranks} ranks, {arm.name} has {arm.ranks}",
                hint="add --scaling to compare runs with different numbers of ranks",
            )
    prior = beside(prior or Prior(baseline.on_device), arms)
    rows = [row for arm in candidates for row in _rows(baseline, arm, prior)]
    found = [note for arm in candidates for note in notes_of(baseline, arm)]
    return Comparison(
        baseline,
        tuple(candidates),
        rule,
        tuple(_ranked(rows, arms)),
        tuple(text for arm in candidates for text in differences(baseline, arm)),
        (*failures_of(baseline), *left_out(baseline), *found),
    )


def _rows(baseline: Arm, arm: Arm, prior: Prior) -> list[ComparedCase]:
    """Of one candidate, with ratios and without verdicts."""
    paired = bool(baseline.series) and baseline.series == arm.series
    note, unlike = _varied_words(baseline, arm), bool(differences(baseline, arm))
    rows, seen = {}, {}
    for key in sorted(baseline.cases.keys() | arm.cases.keys()):
        near = _cached(baseline, arm, key)
        rows[key] = replace(_row(key, baseline, arm), note=note, cached=near, unlike=unlike)
        if rows[key].verdict is Verdict.AMBIGUOUS:
            seen[key] = _difference(baseline.cases[key], arm.cases[key], paired=paired)
    for key, (scatter, is_own) in _known(seen, prior).items():
        # Of the worse launch by its samples, where a side has one.
        error = max(side.cases[key].error_share or 0.0 for side in (baseline, arm))
        made = ratio(seen[key], max(scatter.deviation, error))
        rows[key] = replace(rows[key], ratio=made, known=scatter, is_own=is_own, sampling=error)
    return list(rows.values())


def _known(seen: Mapping[CaseKey, Difference], prior: Prior) -> dict[CaseKey, tuple[Scatter, bool]]:
    """The scatter of launches of each case, and whether it is these launches' own: of all cases of one
    operation and class of sizes.
    """
    alike: dict[tuple[str, SizeClass], list[CaseKey]] = defaultdict(list)
    for key in sorted(seen):
        alike[key.collective, size_class(key.size_bytes)].append(key)
    found: dict[CaseKey, tuple[Scatter, bool]] = {}
    for (operation, _), keys in alike.items():
        known = prior.of(operation, keys[0].size_bytes)
        own = of_class(known.deviation, [seen[key] for key in keys])
        if known.is_default and not any(seen[key].degrees for key in keys):
            curves: dict[CaseKey, list[float]] = defaultdict(list)  # of each kind of case, by size
            for key in keys:
                curves[replace(key, size_bytes=0)].append(seen[key].centre)
            own = of_neighbours(known.deviation, list(curves.values()))
        scatter = (known, False) if own == known.deviation else (Scatter(own), True)
        found |= dict.fromkeys(keys, scatter)
    return found


def _row(key: CaseKey, baseline: Arm, arm: Arm) -> ComparedCase:
    before, after = (
        # What was asked for and is not there failed; without an error it was not run.
        side.cases.get(key, Observed((), status=Status.NOT_RUN, error=side.failed(key)))
        for side in (baseline, arm)
    )
    verdict, why, lost = Verdict.AMBIGUOUS, "", ""
    if not after.times_ns:
        ran = after.status is not Status.NOT_RUN or after.error
        verdict = Verdict.FAILED if ran else Verdict.MISSING
        why = after.error if key in arm.cases else after.error or "not measured"
    elif not before.times_ns:
        verdict = Verdict.MISSING
        why = f"the baseline failed: {before.error}" if before.error else "not measured by the baseline"
    else:
        sides = ((baseline, before), (arm, after))
        lost = "; ".join(f"{side.name}: {seen.error}" for side, seen in sides if seen.error)
    return ComparedCase(
        key,
        arm.name,
        verdict,
        why,
        before.time_ns,
        after.time_ns,
        before.busbw_gb_per_s,
        after.busbw_gb_per_s,
        lost=lost,
    )


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
        row if row.ratio is None else _decided(row, row.ratio, q_of.get(i), rule)
        for i, row in enumerate(rows)
    ]


def _decided(row: ComparedCase, made: Ratio, q: float | None, rule: Rule) -> ComparedCase:
    if row.unlike or q is None:
        return replace(row, why=UNLIKE)
    edge, verdict = math.log1p(rule.delta / 2), Verdict.AMBIGUOUS
    if (made.low > edge or made.high < -edge) and q < rule.q:
        verdict = Verdict.FASTER if made.low > 0 else Verdict.SLOWER
    elif made.bound <= max(rule.delta, rule.detect):
        verdict = Verdict.SAME
    if verdict in _EXPLAINED[row.cached]:
        who = "the baseline" if row.cached is Nearer.FIRST else "the candidate"
        return replace(row, q=q, why=f"looks {verdict}, but caches may hold the buffers of {who} only")
    return replace(row, q=q, verdict=verdict)


# What is not decided where caches help the baseline, or the candidate: what they alone can explain.
_EXPLAINED: Final = {
    Nearer.NEITHER: (),
    Nearer.FIRST: (Verdict.SLOWER, Verdict.SAME),
    Nearer.SECOND: (Verdict.FASTER, Verdict.SAME),
}


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


# ---- what is said beside verdicts: how the times of two arms are not of one thing, on purpose or not ------


def differences(baseline: Arm, arm: Arm) -> list[str]:
    """Why a time of one is not the same thing as a time of the other. What setups of one series vary on
    purpose is what is compared, and no such reason.
    """
    found = []
    varied = _varied(baseline, arm)
    ours, theirs = baseline.definition, arm.definition
    if any(name in varied for name in DEFINING_FLAGS):
        ours, theirs = without_flags(ours), without_flags(theirs)
    if ours != theirs:
        found.append(f"times are {arm.definition}, those of {baseline.name} {baseline.definition}")
    if baseline.nodes and arm.nodes and baseline.nodes != arm.nodes:
        found.append(f"{arm.nodes} nodes, {baseline.name} {baseline.nodes}")
    if baseline.where != arm.where and baseline.cases and arm.cases:
        told = (one.where or "without groups" for one in (arm, baseline))
        found.append(f"groups are {next(told)}, those of {baseline.name} {next(told)}")
    found += [f"{one.name} is of {text}" for one in (baseline, arm) for text in one.mixed]
    known = {baseline.buffers, arm.buffers} - {"not stated"}
    if len(known) > 1 and not any(name in varied for name in BUFFER_FLAGS):
        found.append(f"buffers are {arm.buffers}, those of {baseline.name} {baseline.buffers}")
    return [f"{arm.name}: {text}" for text in found]


def _varied(baseline: Arm, arm: Arm) -> dict[str, tuple[object, object]]:
    """Flags that differ between two setups of one series, by name: the other's value and the baseline's."""
    if not baseline.series or baseline.series != arm.series:
        return {}
    return {
        name: (value, baseline.flags[name])
        for name, value in arm.flags.items()
        if name in baseline.flags and baseline.flags[name] != value
    }


def _varied_words(baseline: Arm, arm: Arm) -> str:
    """Beside a verdict: what of the calls is not the same; empty where all is."""
    words = [
        f"{flag_of(name)} {on_or_off(value)} against {on_or_off(before)}"
        for name, (value, before) in _varied(baseline, arm).items()
    ]
    return ", ".join(words)


def notes_of(baseline: Arm, arm: Arm) -> list[str]:
    """What readers should know of a candidate that is no reason against a verdict."""
    ours, theirs = ({key.plain for key in one.cases} for one in (baseline, arm))
    found = []
    if ours != theirs:
        found.append(
            f"other sweep: {len(ours & theirs)} cases in both, {len(ours - theirs)} only in {baseline.name},"
            f" {len(theirs - ours)} only in {arm.name}"
        )
    for name in ("device", "backend"):
        before, after = baseline.facts.get(name, ""), arm.facts.get(name, "")
        if before and after and before != after:
            found.append(f"{name} {after}, {baseline.name} has {before}")
    is_series = baseline.series and baseline.series == arm.series  # which says itself what it varies
    if not is_series and (other := list(otherwise(arm.measured_with, baseline.measured_with))):
        found.append(f"measured with {first_of(other, _MOST_TOLD)}")
    if words := _varied_words(baseline, arm):
        found.append(f"the same operation with {words}; that is what its verdicts are about")
        if "cudagraph" in _varied(baseline, arm):
            found.append("a graph is replayed by the device, other calls are issued by the host")
    if any(_cached(baseline, arm, key) is not Nearer.NEITHER for key in ours & theirs):
        sizes = arm.rotated_bytes, baseline.rotated_bytes
        own, other_size = map(format_size, sizes)
        found.append(
            f"calls rotated through {own}, those of {baseline.name} through {other_size}, and caches may hold"
            f" the smaller: measure both with -e {format_flag_size(max(sizes))}"
        )
    return [*(f"{arm.name}: {text}" for text in found), *failures_of(arm), *left_out(arm)]


def failures_of(arm: Arm) -> list[str]:
    """Operations, or a launch, of which an arm has nothing, and why."""
    return [f"{arm.name}: {operation} failed: {each.why}" for operation, each in arm.failures.items()]


def left_out(arm: Arm) -> list[str]:
    """What an arm does not have of what its logs had, and which of its launches are not alike."""
    found = (*arm.lacking, *arm.merged)
    return [why if why.startswith(arm.name) else f"{arm.name}: {why}" for why in found]  # of a log: its name


def _cached(baseline: Arm, arm: Arm, key: CaseKey) -> Nearer:
    """Buffers that differ in more than their size have a note of their own, or are what setups vary."""
    if baseline.buffers != arm.buffers or any(name in BUFFER_FLAGS for name in _varied(baseline, arm)):
        return Nearer.NEITHER
    return nearer(baseline.rotated_bytes, arm.rotated_bytes, key.size_bytes)
