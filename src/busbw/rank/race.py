"""Arms that are out of a race: slower than the fastest one by more than chance, pass after pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from busbw.model.case import Case
from busbw.rank.measure import Samples
from busbw.stats import race


def race_of(case: Case) -> tuple[object, ...]:
    """What arms of one race have in common."""
    return (case.collective, case.dtype, case.op, case.root, case.size_bytes, case.placement, case.cycle)


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
        found += [
            place
            for place, times in arms.items()
            if sampled[place][0].arm and race.is_out(times, fastest, race.PASSES)
        ]
    return found
