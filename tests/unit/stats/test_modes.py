from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from busbw.stats.modes import find_modes

Draw = Callable[[np.random.Generator, int], np.ndarray]


def two_modes(random: np.random.Generator, samples: int, share: float, distance: float) -> np.ndarray:
    slow = random.random(samples) < share
    return np.where(slow, 1 + distance, 1.0) * 1e6 * np.exp(random.normal(0, 0.01, samples))


# 8 % apart with 1 % noise. More samples fill the gap, and the modes must not be lost for that; of few samples
# some series are too short for six independent ones on each side.
@pytest.mark.parametrize(("samples", "found"), [(60, 0.75), (165, 0.95), (1000, 1.0), (10_000, 1.0)])
@pytest.mark.parametrize("share", [0.2, 0.3, 0.5, 0.8])
def test_two_modes_are_found_with_weight_and_centre(samples: int, found: float, share: float) -> None:
    series = 5 if samples == 10_000 else 40
    all_modes = [find_modes(two_modes(np.random.default_rng(i), samples, share, 0.08)) for i in range(series)]
    some = [modes for modes in all_modes if modes is not None]
    assert len(some) >= found * series
    for modes in some:
        assert modes.low.weight + modes.high.weight == pytest.approx(1)
        assert modes.high.weight == pytest.approx(share, abs=4 * (share * (1 - share) / samples) ** 0.5)
        assert modes.low.centre == pytest.approx(1.00e6, rel=0.01)
        assert modes.high.centre == pytest.approx(1.08e6, rel=0.01)
        assert modes.gap_mads is not None
        assert modes.gap_mads > 5


def autoregressive(random: np.random.Generator, samples: int) -> np.ndarray:
    steps = random.normal(size=samples)
    steps[1:] *= math.sqrt(1 - 0.6**2)
    for i in range(1, samples):
        steps[i] += 0.6 * steps[i - 1]
    return 1e6 * np.exp(0.03 * steps)


ONE_LEVEL: dict[str, Draw] = {
    "normal": lambda random, samples: random.normal(1e6, 3e4, samples),
    "lognormal": lambda random, samples: 1e6 * np.exp(random.normal(0, 0.03, samples)),
    "long tail": lambda random, samples: 1e6 * np.exp(random.normal(0, 0.3, samples)),
    "autoregressive 0.6": autoregressive,
}


@pytest.mark.parametrize("samples", [12, 16, 31, 118, 454])
@pytest.mark.parametrize("name", ONE_LEVEL)
def test_one_level_is_not_called_two(name: str, samples: int) -> None:
    # At most 1 % of 500 series, however close the two groups may be.
    random = np.random.default_rng(20_261)
    called = sum(find_modes(ONE_LEVEL[name](random, samples), 0.0) is not None for _ in range(500))
    assert called <= 5


def test_a_few_slow_samples_are_outliers_and_no_mode() -> None:
    times = two_modes(np.random.default_rng(1), 1000, 0.05, 5.0)
    assert find_modes(times) is None


def test_modes_within_the_target_do_not_count() -> None:
    times = np.tile([1000.0, 1009.0], 100)
    assert find_modes(times, 0.01) is None
    assert find_modes(times, 0.008) is not None


def test_modes_without_any_spread_have_no_gap_in_mads() -> None:
    modes = find_modes(np.tile([1000.0, 1000.0, 1100.0], 30))
    assert modes is not None
    assert modes.gap_mads is None
    assert modes.low.weight == pytest.approx(2 / 3)


@pytest.mark.parametrize("spread", [0.05, 0.1, 0.2])
def test_ticks_of_a_coarse_clock_are_no_modes(spread: float) -> None:
    # Neighbouring ticks are a tenth apart, and most samples of a group share one: MAD 0 on both sides.
    random = np.random.default_rng(7)
    called = sum(
        find_modes(np.round(10 * np.exp(random.normal(0, spread, 118)))) is not None for _ in range(200)
    )
    assert called == 0
