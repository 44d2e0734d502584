from __future__ import annotations

import math

import pytest

from busbw.stats.launches import launch_interval, student_quantile

# Printed tables of Student's t, two-sided 95 % and 99 %.
TABLE = [
    (1, 12.706, 63.657),
    (2, 4.303, 9.925),
    (5, 2.571, 4.032),
    (10, 2.228, 3.169),
    (120, 1.980, 2.617),
]


@pytest.mark.parametrize(("degrees", "usual", "high"), TABLE)
def test_student_quantiles_of_the_tables(degrees: int, usual: float, high: float) -> None:
    assert student_quantile(0.975, degrees) == pytest.approx(usual, abs=6e-4)
    assert student_quantile(0.995, degrees) == pytest.approx(high, abs=6e-4)


def test_the_interval_of_three_launches_by_hand() -> None:
    # Logarithms -0.01, 0, 0.01: deviation 0.01, t 4.303 with two degrees.
    half = 4.3027 * 0.01 / math.sqrt(3)
    found = launch_interval([math.exp(-0.01), 1.0, math.exp(0.01)])
    assert found == pytest.approx((1.0, math.exp(-half), math.exp(half)))


def test_one_launch_has_no_interval() -> None:
    assert launch_interval([]) is None
    assert launch_interval([5.0]) is None
