"""The interval of a median whose samples were taken in passes far apart in time.

One short pass sees one level of a process that switches or drifts; its interval says nothing of the others.
Passes that scatter by more than their own intervals explain show it: then the interval is that of their
medians, joined with that of all samples. Six medians and more have an interval by order statistics, which one
odd pass of nine does not widen; fewer have Student's t. benchmarks/stopping has the table.

Nine passes of one case meet few of the levels of a host that issues its calls. All such cases of a window
move together, so their passes together say how far a case's median may be (``range_of``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from busbw.stats.interval import (
    LOOK_CONFIDENCE,
    Estimate,
    Float64Array,
    attainable,
    estimate,
    least_samples,
    median,
    median_ranks,
    normal_quantile,
)
from busbw.stats.launches import student_quantile

# Passes whose medians scatter by more than this times what is expected of them differ: passes of independent
# noise do so by chance in up to 1 of 20 cases (benchmarks/stopping).
LEAST_EXCESS: Final = 1.75
BETWEEN_CONFIDENCE: Final = 0.95
# Part of the passes of several cases that is outside their range on either side. With 0.025 the interval of
# one sweep held another's median in 0.91 of the pairs of 13 launches, with 0.01 in 0.93 (benchmarks/gpu).
OUTSIDE: Final = 0.01
# A pass of fewer samples shows no level of its own.
PASS_LOOK: Final = 4


def estimate_over(passes: Sequence[Float64Array], confidence: float) -> Estimate:
    """The median of all samples with an interval that holds over the passes; at least one sample in all.

    ``moved`` is True where the passes differ by more than noise, and the interval is widened for it; it is
    too where the samples are too alike to have one by themselves, as a dozen seem to be by chance.
    """
    pooled = estimate(np.concatenate(passes), confidence)
    judged = [part for part in passes if len(part) >= PASS_LOOK]
    if len(judged) < 2:
        return pooled
    expected = math.fsum(standard_error(part, confidence) for part in judged) / len(judged)
    medians = [median(part) for part in judged]
    mean = math.fsum(medians) / len(medians)
    scatter = math.sqrt(math.fsum((median - mean) ** 2 for median in medians) / (len(medians) - 1))
    moved = scatter > LEAST_EXCESS * expected
    if pooled.attained and not moved:
        return pooled
    low, high = _of_medians(sorted(medians), mean, scatter)
    return replace(
        pooled, low=max(0.0, min(pooled.low, low)), high=max(pooled.high, high), attained=True, moved=moved
    )


def standard_error(values: Float64Array, confidence: float) -> float:
    """Of the median, by its interval of the confidence that so few values have; at least two values."""
    given = attainable(confidence, len(values))
    found = estimate(values, given)
    return (found.high - found.low) / 2 / normal_quantile(given)


def _of_medians(medians: Sequence[float], mean: float, scatter: float) -> tuple[float, float]:
    """An interval that holds the median of passes to come at BETWEEN_CONFIDENCE; ``medians`` ascend."""
    count = len(medians)
    if count >= least_samples(BETWEEN_CONFIDENCE):
        first, last = median_ranks(count, BETWEEN_CONFIDENCE)
        return medians[first], medians[last]
    half = student_quantile((1 + BETWEEN_CONFIDENCE) / 2, count - 1) * scatter / math.sqrt(count)
    return mean - half, mean + half


def range_of(cases: Sequence[Sequence[Float64Array]]) -> tuple[float, float]:
    """Where 98 % of the passes of all cases lie, as shares of the median pass of their own case; (1, 1) where
    they scatter by no more than their own samples explain, and of one case, whose own interval says it all.

    As many are left out on either side as one case can have there, so that no single case sets an end.
    """
    shares: list[float] = []
    errors: list[float] = []
    most_of_one = 0
    for passes in cases:
        judged = [part for part in passes if len(part) >= PASS_LOOK]
        medians = [median(part) for part in judged]
        if medians and (middle := median(medians)) > 0:
            shares += [each / middle for each in medians]
            errors += [standard_error(part, LOOK_CONFIDENCE) / middle for part in judged]
            most_of_one = max(most_of_one, len(judged))
    if len(shares) == most_of_one:
        return 1.0, 1.0
    shares.sort()
    outside = max(int(OUTSIDE * len(shares)), most_of_one // 2)
    low, high = shares[outside], shares[-1 - outside]
    explained = normal_quantile(BETWEEN_CONFIDENCE) * median(errors)  # a stall is in the mean
    return (low, high) if (high - low) / 2 > explained else (1.0, 1.0)


def no_narrower(found: Estimate, low: float, high: float) -> Estimate:
    """With an interval that reaches from ``low`` to ``high`` times the median at least; one of samples that
    do not vary stays.
    """
    if found.low == found.high:
        return found
    return replace(found, low=min(found.low, low * found.median), high=max(found.high, high * found.median))


def thirds(values: Float64Array) -> tuple[Float64Array, ...]:
    """A series that was taken at once as three passes, which shows a level that moved meanwhile."""
    return tuple(np.array_split(values, 3))


def is_due(number: int, visits: int, rounds: int) -> bool:
    """Whether a case that is visited so often in so many rounds is visited in this one: visits lie evenly.

    Neighbours count rounds from other numbers, so that they are visited in other rounds and all rounds take
    about as long. Else the last passes of those with many would crowd where the others have ended.
    """
    return (number + 1) * visits // rounds > number * visits // rounds
