"""Steps of maps: noise looks alike, far values get steps of equal ratio, what was not tested none."""

from __future__ import annotations

import numpy as np
import pytest

from busbw.report.plots_of_hunt import edges, fold, levels


def test_noise_looks_alike() -> None:
    values = np.array([10.0, 10.1, 9.95, 10.05])
    bounds = edges(values, 6)
    assert bounds[-1] - bounds[0] == pytest.approx(0.1 * np.median(values))
    assert set(levels(values, bounds).tolist()) <= {2, 3}
    # A fault does not.
    values = np.array([10.0, 10.1, 5.0, np.nan])
    assert levels(values, edges(values, 6)).tolist() == [5, 5, 0, -1]


def test_classes_of_paths_get_steps_of_equal_ratio() -> None:
    bounds = edges(np.array([1.0, 1000.0]), 3)
    assert bounds.tolist() == pytest.approx([1, 10, 100, 1000])
    assert levels(np.array([1.0, 20.0, 1000.0]), bounds).tolist() == [0, 1, 2]


@pytest.mark.parametrize(("largest", "worst"), [(False, 1.0), (True, 9.0)])
def test_neighbours_show_their_worst(largest: bool, worst: float) -> None:
    values = np.full((5, 5), 5.0)
    np.fill_diagonal(values, np.nan)
    values[0, 3], values[1, 2] = 1.0, 9.0
    folded, first = fold(values, 3, largest=largest)
    assert (folded.shape, first) == ((3, 3), [0, 2, 4])
    assert folded[0, 1] == worst
    assert np.isnan(folded[2, 2])  # one part alone
    assert fold(values, 5, largest=largest)[0] is values
