"""The sample table: one fixed-size record per sample, so that a cut file keeps every whole record."""

from __future__ import annotations

from enum import IntFlag
from typing import Final

import numpy as np

# Instead of a rank, in rows made from all ranks' samples: the maximum, the minimum, and the time that the
# headline is made from where that is neither (``plan.timing.time``).
MAX_OVER_RANKS: Final = -1
MIN_OVER_RANKS: Final = -2
HEADLINE: Final = -3


class SampleFlag(IntFlag):
    """What is known about a sample from outside its duration. ``EXCLUDING`` are reasons to leave it out."""

    NONE = 0
    DESCHEDULED = 1  # a rank lost its core
    THROTTLED = 2
    CLOCK_STEP = 4  # two clocks of a host disagree about how long it took
    MISSED_START = 8
    SINGLE_CALL = 16  # of the pass with one call a sample: for percentiles, not for the headline


# What leaves a sample out of times and percentiles, as long as that are few (stats.outliers.exclude). A
# device that throttles is no reason: that is there to be measured.
EXCLUDING: Final = int(SampleFlag.DESCHEDULED | SampleFlag.CLOCK_STEP | SampleFlag.MISSED_START)


SAMPLE_DTYPE: Final = np.dtype(
    [
        ("case", "<i4"),  # index into the plan's cases
        ("rank", "<i4"),  # MAX_OVER_RANKS for the maximum over ranks
        ("sample", "<i4"),  # position in the case, over all looks
        ("k", "<i4"),  # back-to-back calls in the sample
        ("elapsed_ns", "<i8"),  # of all k calls together
        ("issue_ns", "<i8"),  # host time of issuing them; equals elapsed_ns where calls block
        ("flags", "<i4"),  # SampleFlag
    ]
)

DIGEST_DTYPE: Final = np.dtype(
    [
        ("case", "<i4"),
        ("rank", "<i4"),
        ("samples", "<i4"),
        ("min_ns", "<f8"),  # these five: per call, over the rank's own samples
        ("median_ns", "<f8"),
        ("mean_ns", "<f8"),
        ("p95_ns", "<f8"),
        ("max_ns", "<f8"),
        ("run_delay_ns", "<i8"),  # how long the rank was ready to run and had no core, over all looks
        ("flagged", "<i4"),  # samples with a flag that is a reason to exclude them
    ]
)
