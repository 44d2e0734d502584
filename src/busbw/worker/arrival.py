"""Arrival patterns: how late each rank enters each call, on purpose.

Applications' ranks do not arrive together, and the arrival pattern can decide which algorithm is best (Faraj,
Patarasuk, Yuan, "A study of process arrival patterns for MPI collective operations", 2008). The largest delay
is the time of the call itself.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

PATTERNS = ("none", "late-one", "uniform", "ramp")

Int64Array = npt.NDArray[np.int64]


def delays_ns(
    pattern: str, rank: int, ranks: int, call_ns: float, seed: int, first: int, samples: int
) -> Int64Array | None:
    """Delays of this rank before samples ``first`` to ``first + samples``, in ns; None where nobody is late.

    late-one: one rank, another for each sample, is late by one call time. uniform: each rank by a random part
    of it. ramp: rank r by r / (ranks - 1) of it. The same seed gives the same delays.
    """
    if pattern == "none":
        return None
    if pattern == "ramp":
        share = np.full(samples, rank / max(1, ranks - 1))
    elif pattern == "late-one":
        late = np.array([_random(seed, i).integers(ranks) for i in range(first, first + samples)])
        share = (late == rank).astype(float)
    elif pattern == "uniform":
        share = np.array([_random(seed, i).random(ranks)[rank] for i in range(first, first + samples)])
    else:
        raise ValueError(f"no arrival pattern {pattern!r}")
    return np.asarray(share * call_ns, np.int64)


def _random(seed: int, sample: int) -> np.random.Generator:
    return np.random.default_rng((seed, sample))
