"""By how much a rank is delayed on purpose before each of its calls."""

from __future__ import annotations

import numpy as np

from busbw.model.arrival import NONE, TRACE, Arrival
from busbw.model.plan import Timing
from busbw.rank.backends.base import Int64Array


def delays_ns(
    timing: Timing, rank: int, ranks: int, call_ns: float, seed: int, first: int, samples: int
) -> Int64Array | None:
    """Delays of this rank before samples ``first`` to ``first + samples``, in ns; None where no rank is late.

    late-one: one rank, another for each sample, is late by the most. uniform: each rank by a random part of
    the range. ramp: rank r by r / (ranks - 1) of it. trace: as the file's lines say in turn. A range that
    was not given is from 0 to the time of a call. The same seed gives the same delays.
    """
    arrival = Arrival.of(timing.arrival)
    numbers = range(first, first + samples)
    if arrival.pattern == NONE:
        return None
    if arrival.pattern == TRACE:
        rows = timing.trace_ns
        return np.array([rows[number % len(rows)][rank] for number in numbers], np.int64)
    if arrival.pattern == "ramp":
        share = np.full(samples, rank / max(1, ranks - 1))
    elif arrival.pattern == "late-one":
        share = np.array([float(_random(seed, i).integers(ranks) == rank) for i in numbers])
    else:
        share = np.array([_random(seed, i).random(ranks)[rank] for i in numbers])
    least, most = arrival.least_ns, call_ns if arrival.most_ns is None else arrival.most_ns
    return np.asarray(least + share * (most - least), np.int64)


def latest_ns(timing: Timing, call_ns: float) -> float:
    """The longest delay of any rank; 0 where none is delayed."""
    arrival = Arrival.of(timing.arrival)
    if arrival.pattern == NONE:
        return 0.0
    if arrival.pattern == TRACE:
        return float(max(map(max, timing.trace_ns)))
    return call_ns if arrival.most_ns is None else arrival.most_ns


def _random(seed: int, sample: int) -> np.random.Generator:
    return np.random.default_rng((seed, sample))
