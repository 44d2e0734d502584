"""The sample table: one fixed-size record per sample, so that a cut file keeps every whole record."""

from __future__ import annotations

from enum import IntFlag
from typing import Final

import numpy as np

# Rank of the row that holds, per sample, the maximum over all ranks: what the headline is made from.
MAX_OVER_RANKS: Final = -1


class SampleFlag(IntFlag):
    """What is known about a sample from outside its own duration."""

    NONE = 0


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
    ]
)
