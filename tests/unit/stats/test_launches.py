from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.stats.launches import launch_interval, student_cdf, student_quantile

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


def test_student_with_one_and_two_degrees_has_closed_forms() -> None:
    for t in (0.0, 0.3, 1.0, 5.0):
        assert student_cdf(t, 1) == pytest.approx(0.5 + math.atan(t) / math.pi)
        assert student_cdf(t, 2) == pytest.approx(0.5 + t / (2 * math.sqrt(2 + t * t)))


@given(st.floats(0.5, 0.9995), st.integers(1, 60))
def test_quantile_and_distribution_are_inverse(probability: float, degrees: int) -> None:
    assert student_cdf(student_quantile(probability, degrees), degrees) == pytest.approx(
        probability, abs=1e-9
    )


@pytest.mark.parametrize(("probability", "degrees"), [(0.4, 3), (1.0, 3), (0.9, 0)])
def test_quantiles_that_do_not_exist(probability: float, degrees: int) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        student_quantile(probability, degrees)


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


@given(st.lists(st.floats(1.0, 1e9), min_size=2, max_size=10), st.integers(-20, 20))
def test_the_unit_does_not_matter(medians: list[float], power: int) -> None:
    first = launch_interval(medians)
    second = launch_interval([median * 2.0**power for median in medians])
    assert first is not None
    assert second is not None
    assert second.half_width == pytest.approx(first.half_width, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("launches", [2, 3, 10])
def test_the_interval_holds_the_true_centre_as_often_as_it_says(launches: int) -> None:
    random, covered, runs = np.random.default_rng(8), 0, 2000
    for _ in range(runs):
        interval = launch_interval(np.exp(random.normal(0, 0.02, launches)).tolist())
        assert interval is not None
        covered += interval.low <= 1.0 <= interval.high
    # Two and a half standard errors, on both sides: a wider interval than promised is wrong as well.
    assert abs(covered / runs - 0.95) <= 2.5 * math.sqrt(0.95 * 0.05 / runs)
