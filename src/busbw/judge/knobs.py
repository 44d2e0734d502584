"""Values of a variable that race by launches: which are out, and which one leads. Pure.

A launch counts by one number: the mean, over cases, of the logarithm of its time against the first setup's.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from busbw.judge.compare import Comparison, Verdict
from busbw.judge.compare_arms import Arm
from busbw.judge.tune import LEAST_GAIN
from busbw.stats.race import LAUNCHES, is_out

_BAD = (Verdict.SLOWER, Verdict.FAILED, Verdict.MISSING)


def losers(arms: Sequence[Arm]) -> frozenset[str]:
    """The setups that need no more launches, of those that were launched in turn so far; the first is how it
    is. One that failed once or had wrong data is out, and the first where nobody is left against it.
    """
    first, *others = arms
    times = {arm.name: _pace(arm, first) for arm in arms}
    measured = {name: pace for name, pace in times.items() if pace}
    if first.name not in measured:
        return frozenset()
    fastest = min(measured.values(), key=lambda pace: fmean(pace.values()))
    out = set()
    for arm in others:
        own = times[arm.name]
        both = sorted(own.keys() & fastest.keys())
        slow = is_out([own[block] for block in both], [fastest[block] for block in both], LAUNCHES)
        if arm.failures or arm.wrong or slow:
            out.add(arm.name)
    return frozenset(out | {first.name} if len(out) == len(others) else out)


def _pace(arm: Arm, first: Arm) -> dict[int, float]:
    """Its time against the first setup's, by block, over the cases that both have."""
    logs: dict[int, list[float]] = defaultdict(list)
    for key, seen in arm.cases.items():
        reference = first.cases[key].time_ns if key in first.cases else None
        if reference:
            for block, time_ns in zip(seen.blocks, seen.times_ns, strict=True):
                logs[block].append(math.log(time_ns / reference))
    return {block: math.exp(fmean(each)) for block, each in logs.items()}


def leader(comparison: Comparison) -> tuple[str, float]:
    """The setup to go on with, and the share of time that it saves over all cases: the fastest of those that
    are slower nowhere and completed every launch; the baseline and 0 where none saves as much as a table
    would be worth.
    """
    best, most = comparison.baseline.name, LEAST_GAIN
    for arm in comparison.candidates:
        rows = [row for row in comparison.rows if row.arm == arm.name]
        if arm.failures or arm.wrong or any(row.verdict in _BAD for row in rows):
            continue
        saved = 1 - math.exp(-fmean(math.log(row.speedup or 1.0) for row in rows)) if rows else 0.0
        if saved > most:
            best, most = arm.name, saved
    return best, most if best != comparison.baseline.name else 0.0
