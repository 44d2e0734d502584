"""Where a level changed: found soon, not invented, and not moved by single launches."""

from __future__ import annotations

import numpy as np
import pytest

from busbw.stats.change_points import LEAST, WINDOW, find_change, likely_places, scatter_of

RNG = np.random.default_rng(3)
STEADY = RNG.normal(0.0, 0.02, WINDOW)


def test_a_shift_of_ten_percent_is_found_after_three_launches_where_it_was() -> None:
    shifted = STEADY.copy()
    shifted[-LEAST:] += 0.1
    assert find_change(shifted, []) == WINDOW - LEAST
    assert find_change(shifted[:-1], []) is None
    assert next(iter(likely_places(shifted, [WINDOW - LEAST], 20.0))) == WINDOW - LEAST


def test_steady_launches_and_few_odd_ones_are_no_change() -> None:
    assert find_change(STEADY, []) is None
    odd = STEADY.copy()
    odd[-3:-1] += 0.4, 0.2
    assert find_change(odd, []) is None


def test_what_is_significant_and_smaller_than_one_percent_is_no_change() -> None:
    """Nobody looks for it."""
    fine = STEADY / 20
    fine[50:] += 0.008
    assert find_change(fine, []) is None
    fine[50:] += 0.008
    assert find_change(fine, []) is not None


def test_levels_that_switch_all_the_time_are_scatter() -> None:
    switching = np.where(np.arange(WINDOW) // 3 % 2, 0.3, 0.0) + STEADY / 4
    assert all(find_change(switching[:end], []) is None for end in range(12, WINDOW + 1))


def test_a_known_change_is_found_once_and_the_way_back_is_another_one() -> None:
    there = STEADY.copy()
    there[50:] += 0.1
    assert find_change(there, [50]) is None
    there[80:] -= 0.1
    assert find_change(there, [50]) == 80


def test_scatter_is_about_the_levels_and_far_launches_count_as_less_far() -> None:
    two = STEADY.copy()
    two[50:] += 0.5
    assert scatter_of(two, [50]).deviation == pytest.approx(0.02, rel=0.2)
    far = STEADY.copy()
    far[10] = 5.0
    assert scatter_of(far, []).deviation == pytest.approx(0.02, rel=0.2)


def test_few_launches_and_exact_ones_make_no_change() -> None:
    assert find_change(np.zeros(WINDOW), []) is None
    assert find_change(np.array([0.0] * 5 + [1.0] * 5), []) is None
