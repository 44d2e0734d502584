from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from busbw.stats.interval import estimate
from busbw.stats.passes import estimate_over, no_narrower, range_of, thirds

RANDOM = np.random.default_rng(4)


def around(level: float, samples: int = 20) -> np.ndarray:
    return level * np.exp(0.01 * RANDOM.normal(size=samples))


def test_passes_that_agree_have_the_interval_of_all_samples() -> None:
    passes = [around(1e6) for _ in range(4)]
    assert estimate_over(passes, 0.99) == estimate(np.concatenate(passes), 0.99)


def test_passes_that_differ_have_that_of_their_medians() -> None:
    passes = [np.full(8, level) for level in (6.0, 6.0, 9.0, 6.0)]
    found = estimate_over(passes, 0.99)
    # Student's t over 6, 6, 9, 6: 6.75 +- 3.182 x 1.5 / 2.
    assert (found.median, found.moved, found.attained) == (6.0, True, True)
    assert (found.low, found.high) == (
        pytest.approx(6.75 - 2.3868, abs=1e-3),
        pytest.approx(9.1368, abs=1e-3),
    )


def test_a_dozen_samples_that_look_alike_have_the_interval_of_their_passes_too() -> None:
    passes = [np.linspace(level, level + 0.06, 4) for level in (1.0, 1.03, 1.06)]
    pooled = estimate(np.concatenate(passes), 0.99)
    found = estimate_over(passes, 0.99)
    assert (pooled.attained, found.attained, found.moved) == (False, True, False)
    assert found.low < pooled.low < pooled.high < found.high


def test_few_samples_show_no_level_of_their_own() -> None:
    passes = [np.full(3, level) for level in (6.0, 9.0, 6.0)]
    assert estimate_over(passes, 0.99) == estimate(np.concatenate(passes), 0.99)


def test_one_series_shows_by_its_thirds_that_its_level_moved() -> None:
    times = np.concatenate((around(1.0, 60), around(1.1, 30)))
    assert estimate_over(thirds(times), 0.99).moved
    assert not estimate_over(thirds(around(1.0, 90)), 0.99).moved


def test_no_interval_is_narrower_than_what_was_looked_for() -> None:
    found = estimate(around(1.0, 90), 0.99)
    assert no_narrower(found, 1.0, 1.0) == found
    wide = no_narrower(found, 0.5, 1.2)
    assert (wide.low, wide.high) == pytest.approx((0.5 * found.median, 1.2 * found.median))
    same = estimate(np.full(20, 3.0), 0.99)
    assert no_narrower(same, 0.5, 1.5) == same


def case_at(levels: Sequence[float], pace: float = 1.0) -> list[np.ndarray]:
    return [pace * around(level) for level in levels]


def test_cases_that_move_together_reach_as_far_as_their_passes() -> None:
    slow = [case_at([6, 6, 6, 6, 6, 6, 9, 9, 9], pace) for pace in (1.0, 1.5)]
    fast = [case_at([6, 9, 9, 9, 9, 9, 9, 9, 9], pace) for pace in (1.0, 0.7)]
    assert range_of([*slow, *fast]) == pytest.approx((1.0, 1.5), rel=0.02)
    assert range_of(slow[:1]) == (1.0, 1.0)  # has its own interval
    slow[0][0] = np.array([6.0, 6.0, 6.0, 6e5])  # a stall hides no level
    assert range_of([*slow, *fast]) == pytest.approx((1.0, 1.5), rel=0.02)


def test_no_single_case_sets_how_far_all_reach() -> None:
    levels = [6, 6, 6, 6, 6, 6.3, 6.3, 6.3, 6.3]
    odd = case_at([6, 6, 6, 6, 6, 60, 60, 60, 60])
    for others in (1, 5, 33):
        _, high = range_of([odd, *(case_at(levels) for _ in range(others))])
        assert high < 1.1


def test_noise_is_no_level() -> None:
    def noisy() -> np.ndarray:
        return 6 * np.exp(0.05 * RANDOM.normal(size=10))

    for cases in (2, 34):
        assert range_of([[noisy() for _ in range(9)] for _ in range(cases)]) == (1.0, 1.0)
