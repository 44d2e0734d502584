"""Steps of a map from the worst value to the best: the same in a terminal, a page and a picture. Pure."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEAST_SPAN: Final = 0.1  # of the median: what differs by less is drawn alike, or noise looks like a fault
_FAR: Final = 10.0  # times the least: steps of equal ratio


def edges(values: Floats, steps: int) -> Floats:
    """``steps`` + 1 ascending bounds from the least to the greatest value, both inside; NaN is left out.
    Of equal width; of equal ratio where the greatest is 10 times the least, or more.
    """
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if low > 0 and high >= _FAR * low:
        return np.geomspace(low, high, steps + 1)
    missing = LEAST_SPAN * float(np.nanmedian(values)) - (high - low)
    if missing > 0:
        low, high = low - missing / 2, high + missing / 2
    return np.linspace(low, high, steps + 1)


def levels(values: Floats, bounds: Floats) -> npt.NDArray[np.int64]:
    """The step of each value, from 0 for the least; -1 for NaN."""
    found = np.clip(np.searchsorted(bounds, values, side="right") - 1, 0, len(bounds) - 2)
    return np.where(np.isnan(values), -1, found)
