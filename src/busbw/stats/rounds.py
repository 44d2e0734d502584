"""Two things measured in turn, round by round: their ratio."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from busbw.stats.interval import Estimate, estimate
from busbw.stats.stopping import LOOK_CONFIDENCE


def ratio_of_rounds(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """The median over rounds of first / second (> 0), with an interval by order statistics that holds at 95 %
    overall where looks at 8, 11, 16, ... rounds may end the measurement. What drifts from round to round is
    in both, so ratios of rounds are independent.
    """
    return estimate(np.array(first) / np.array(second), LOOK_CONFIDENCE, independent=True)
