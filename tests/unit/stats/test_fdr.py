"""False discoveries: the q of a table of p."""

from __future__ import annotations

import random

import numpy as np
import pytest

from busbw.stats.fdr import benjamini_hochberg


def test_q_is_that_of_scipy() -> None:
    from scipy import stats

    draw = random.Random(2)
    for n in (1, 2, 30):
        p_values = [draw.random() ** 3 for _ in range(n)]
        assert np.allclose(benjamini_hochberg(p_values), stats.false_discovery_control(p_values))


def test_one_among_many_needs_a_smaller_p() -> None:
    assert benjamini_hochberg([0.002, *([0.5] * 19)])[0] == pytest.approx(0.04)
    assert benjamini_hochberg([0.002] * 20) == pytest.approx([0.002] * 20)
    assert benjamini_hochberg([]) == []
