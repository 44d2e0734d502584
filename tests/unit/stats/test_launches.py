from __future__ import annotations

import math

import numpy as np
import pytest

from busbw.stats.launches import launch_interval, student_quantile

# Printed tables of Student's t, two-sided 95 % and 99 %.
TABLE = [
    (1, 12.706, 63.657),
    (2, 4.303, 9.925),
    (3, 3.182, 5.841),
    (4, 2.776, 4.604),
    (5, 2.571, 4.032),
    (7, 2.365, 3.499),
    (10, 2.228, 3.169),
    (19, 2.093, 2.861),
    (30, 2.042, 2.750),
    (120, 1.980, 2.617),
]


@pytest.mark.parametrize(("degrees", "usual", "high"), TABLE)
def test_student_quantiles_of_the_tables(degrees: int, usual: float, high: float) -> None:
    assert student_quantile(0.975, degrees) == pytest.approx(usual, abs=6e-4)
    assert student_quantile(0.995, degrees) == pytest.approx(high, abs=6e-4)


def test_the_interval_of_three_launches_by_hand() -> None:
    # Logarithms -0.01, 0, 0.01: deviation 0.01, t 4.303 with two degrees.
    result = launch_interval([math.exp(-0.01), 1.0, math.exp(0.01)])
    assert result is not None
    half = 4.3027 * 0.01 / math.sqrt(3)
    assert (result.centre, result.launches) == (pytest.approx(1.0), 3)
    assert (result.low, result.high) == (pytest.approx(math.exp(-half)), pytest.approx(math.exp(half)))
    assert result.half_width == pytest.approx(math.sinh(half), rel=1e-4)


def test_one_launch_has_no_interval() -> None:
    assert launch_interval([]) is None
    assert launch_interval([5.0]) is None


@pytest.mark.parametrize("launches", [2, 3, 10])
def test_the_interval_holds_the_true_centre_as_often_as_it_says(launches: int) -> None:
    random, covered, runs = np.random.default_rng(8), 0, 2000
    for _ in range(runs):
        interval = launch_interval(np.exp(random.normal(0, 0.02, launches)).tolist())
        assert interval is not None
        covered += interval.low <= 1.0 <= interval.high
    # Two and a half standard errors, on both sides: a wider interval than promised is wrong as well.
    assert abs(covered / runs - 0.95) <= 2.5 * math.sqrt(0.95 * 0.05 / runs)
