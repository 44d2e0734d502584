"""Arms of a race: in which order a round visits them, and which are out, slower than the fastest one by more
than chance, pass after pass.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np

from busbw.model.case import Case
from busbw.rank.measure import Samples
from busbw.stats import race


def race_of(case: Case) -> tuple[object, ...]:
    """What arms of one race have in common."""
    return (case.collective, case.dtype, case.op, case.root, case.size_bytes, case.placement, case.cycle)


def in_random_order(places: Sequence[int], cases: Mapping[int, Case], number: int) -> list[int]:
    """The places of a round, each race's arms in another order, still next to each other: what comes first
    in a race (its default, in the plan's order) may find a cold device. The same on every rank.
    """
    draw, found = random.Random(number), list[int]()
    for _, arms in groupby(places, key=lambda place: race_of(cases[place])):
        own = list(arms)
        found += draw.sample(own, len(own))
    return found


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
