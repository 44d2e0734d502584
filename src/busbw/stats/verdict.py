"""What a case's samples look like besides their median: the marks that a row gets, with their evidence."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from busbw.stats.interval import Float64Array, autocorrelation_time
from busbw.stats.modes import Modes, find_modes
from busbw.stats.outliers import Outliers, count_outliers
from busbw.stats.percentile import nearest_rank
from busbw.stats.shift import Shift, find_shift
from busbw.stats.warmup import faster_start

# Samples that are alike over more than this many neighbours are a drift or a switching level, not noise: at
# 1000 samples fewer than 50 independent ones are left. An AR(1) series with 0.9 has 14, with 0.95 about 28.
LARGEST_TAU: Final = 20.0


# Words of model.mark.
UNSTABLE: Final = "unstable"  # the level moved while it was sampled
BIMODAL: Final = "bimodal"  # two levels with nothing between


@dataclass(frozen=True)
class Shape:
    """The marks of a case and the numbers behind them. ``tau`` is in samples; ``shift`` and ``modes`` are
    None where there is none that matters.
    """

    marks: tuple[str, ...]
    tau: float
    shift: Shift | None
    modes: Modes | None
    outliers: Outliers

    def evidence(self) -> dict[str, Any]:
        """The numbers as JSON takes them; without ``shift`` and ``modes`` where there are none."""
        fields = {name: value for name, value in asdict(self).items() if value is not None}
        del fields["marks"]
        return fields


def judge(times_ns: Float64Array, precision: float = 0.01) -> Shape:
    """Judge a case by its samples (per call, maximum over ranks, in the order taken; at least one).

    Pure and the same on every rank. What moves or splits the samples by no more than ``precision``, the
    half-width that was asked of the median's interval (``stopping.target``), is no mark: no reader could see
    it in the result.
    """
    tau = autocorrelation_time(times_ns)
    shift = find_shift(times_ns, precision) or faster_start(times_ns, precision)
    modes = find_modes(times_ns, precision)
    unstable = shift is not None or (tau > LARGEST_TAU and _spread(times_ns) > precision)
    found = {UNSTABLE: unstable, BIMODAL: modes is not None}
    marks = tuple(mark for mark, is_found in found.items() if is_found)
    return Shape(marks, tau, shift, modes, count_outliers(times_ns))


def _spread(times_ns: Float64Array) -> float:
    """The middle four fifths of the samples, relative to the median; 0 where the median is."""
    ordered = np.sort(times_ns)
    median = float(np.median(ordered))
    return (nearest_rank(ordered, 90) - nearest_rank(ordered, 10)) / median if median > 0 else 0.0
