"""Samples far from the rest are counted and shown. None is dropped for being slow.

A slow sample is what the benchmark is there to find. A sample is excluded only on evidence from outside its
own duration, such as a clock that stepped, and a case that loses too many that way is invalid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.stats.interval import Float64Array, median

# In median absolute deviations from the median: 10 standard deviations of a normal distribution (1.4826 MAD
# each), as hyperfine warns from.
FAR_MAD: Final = 14.8
# Half of all samples may lie on one tick of the clock, which makes the spread zero and any other
# tick an outlier. A tenth of the usual target of 1 % is nothing to show.
LEAST_SPREAD: Final = 0.001

Int64Array = npt.NDArray[np.int64]


def count_outliers(values: Float64Array) -> int:
    """How many lie beyond 14.8 MAD from the median. Needs at least one value."""
    middle = median(values)
    deviations = np.abs(values - middle)
    mad = max(median(deviations), LEAST_SPREAD * abs(middle))
    return int(np.count_nonzero(deviations > FAR_MAD * mad))


@dataclass(frozen=True)
class Exclusion:
    """Which samples are left after those with outside evidence against them.

    ``kept`` are positions in the series. ``reasons`` are (bit, samples with it); a sample with two bits is in
    two of them and excluded once. ``valid`` is False above 5 %, whatever the reasons.
    """

    kept: Int64Array
    samples: int
    reasons: tuple[tuple[int, int], ...]

    @property
    def excluded(self) -> int:
        """Samples with at least one reason."""
        return self.samples - len(self.kept)

    @property
    def valid(self) -> bool:
        """At most one sample in 20 is excluded."""
        return 20 * self.excluded <= self.samples


def exclude(flags: npt.NDArray[np.integer], mask: int) -> Exclusion:
    """Split samples by their flags (``model.sample.SampleFlag``); only bits in ``mask`` are reasons."""
    against = flags.astype(np.int64) & mask
    if not against.any():  # as of nearly every look
        return Exclusion(np.arange(len(flags), dtype=np.int64), len(flags), ())
    bits = [1 << place for place in range(mask.bit_length()) if mask >> place & 1]
    reasons = tuple((bit, count) for bit in bits if (count := int(np.count_nonzero(against & bit))))
    return Exclusion(np.flatnonzero(against == 0).astype(np.int64), len(flags), reasons)
