"""Two things measured in turn, round by round: their ratio."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.stats.interval import LOOK_CONFIDENCE, Estimate, Float64Array, estimate
from busbw.stats.percentile import least_samples, nearest_rank

RESAMPLES: Final = 400
_SEED: Final = 1


def over_rounds(ratios: Float64Array) -> Estimate:
    """The median of a ratio that each round has, with an interval by order statistics that holds at 95 %
    overall where looks at 8, 11, 16, ... rounds may end the measurement. What drifts from round to round is
    in both of its parts, so ratios of rounds are independent.
    """
    return estimate(ratios, LOOK_CONFIDENCE, independent=True)


def p99_ratio(first: Sequence[Float64Array], second: Sequence[Float64Array]) -> tuple[float, ...]:
    """The ratio of the 99th percentiles of all samples (> 0), and the ends of its 95 % interval by the
    bootstrap over rounds: a round is drawn with its samples of both. Empty where there are too few samples.
    """
    if min(sum(map(len, first)), sum(map(len, second))) < least_samples(99):
        return ()
    draw = np.random.default_rng(_SEED).integers(len(first), size=(RESAMPLES, len(first)))
    drawn = np.sort([_p99(first, rounds) / _p99(second, rounds) for rounds in draw])
    all_rounds = np.arange(len(first))
    ends = (nearest_rank(drawn, 2.5), nearest_rank(drawn, 97.5))
    return (_p99(first, all_rounds) / _p99(second, all_rounds), *ends)


def _p99(samples: Sequence[Float64Array], rounds: npt.NDArray[np.int64]) -> float:
    return nearest_rank(np.sort(np.concatenate([samples[number] for number in rounds])), 99)
