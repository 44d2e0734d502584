"""What a case's samples look like besides their median: the marks that a row gets, with their evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from busbw.stats.interval import LOOK_CONFIDENCE, Estimate, Float64Array, median
from busbw.stats.modes import Modes, find_modes
from busbw.stats.outliers import count_outliers
from busbw.stats.passes import estimate_over, thirds

# Why a case is unstable.
UNSTABLE: Final = "level moved"  # the level moved while it was sampled
BIMODAL: Final = "two levels"  # two levels with nothing between


@dataclass(frozen=True)
class Shape:
    """The marks of a case and the numbers behind them. ``levels`` are the medians of the passes, or of the
    thirds of a single one, empty where they do not differ; ``modes`` is None where there are none; so many
    samples are ``outliers``.
    """

    marks: tuple[str, ...]
    levels: tuple[float, ...]
    modes: Modes | None
    outliers: int


def judge(passes: Sequence[Float64Array], precision: float = 0.01, whole: Estimate | None = None) -> Shape:
    """Judge a case by its samples (per call, maximum over ranks, in the order taken; at least one in a pass).

    ``whole`` is the estimate over several passes, where it is known; one pass is judged by its thirds.
    What moves or splits the samples by no more than ``precision``, the half-width that was asked of the
    median's interval (``stopping.target``), is no mark: no reader could see it in the result.
    """
    parts = passes if len(passes) > 1 else [part for part in thirds(passes[0]) if len(part)]
    if whole is None or len(passes) == 1:
        whole = estimate_over(parts, LOOK_CONFIDENCE)
    samples = np.concatenate(passes)
    moved = whole.moved and whole.half_width > precision
    modes = find_modes(samples, precision)
    found = {UNSTABLE: moved, BIMODAL: modes is not None}
    return Shape(
        tuple(mark for mark, is_found in found.items() if is_found),
        tuple(median(part) for part in parts) if moved else (),
        modes,
        count_outliers(samples),
    )
