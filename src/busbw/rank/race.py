"""Arms that are out of a race: slower than the fastest one by more than chance, pass after pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from busbw.model.case import Case
from busbw.rank.measure import Samples

# By how much slower than the fastest arm one has to be in each of its passes, by the number of passes. One
# that is as fast as the fastest is lost where a pass is off by so much; then another arm of its speed is
# left, so no race has a false winner by it. Passes of one round lie within a second of each other.
MARGINS: Final = (0.10, 0.05, 0.03)


def race_of(case: Case) -> tuple[object, ...]:
    """What arms of one race have in common."""
    return (case.collective, case.dtype, case.op, case.root, case.size_bytes, case.placement, case.cycle)


def is_out(own: Sequence[float], fastest: Sequence[float]) -> bool:
    """Whether an arm with these times a pass is out against the fastest one's."""
    passes = min(len(own), len(fastest))
    margin = MARGINS[min(passes, len(MARGINS)) - 1]
    return passes > 0 and all(own[i] > fastest[i] * (1 + margin) for i in range(passes))


def losers(sampled: Mapping[int, tuple[Case, Samples]]) -> list[int]:
    """The places of arms that are out, of cases that were sampled so far. The same on every rank, in one
    order: samples are those over all ranks.
    """
    races: dict[tuple[object, ...], dict[int, list[float]]] = defaultdict(dict)
    for place, (case, samples) in sampled.items():
        times = [float(np.median(each)) for each in samples.times_by_pass]
        if times:
            races[race_of(case)][place] = times
    found = []
    for arms in races.values():
        fastest = min(arms.values(), key=lambda times: float(np.mean(times)))
        found += [place for place, times in arms.items() if sampled[place][0].arm and is_out(times, fastest)]
    return found
