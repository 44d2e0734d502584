from __future__ import annotations

import numpy as np
import pytest

from busbw.stats.verdict import BIMODAL, UNSTABLE, judge


def noise(samples: int = 200, spread: float = 0.01, seed: int = 1) -> np.ndarray:
    return 1e6 * np.exp(np.random.default_rng(seed).normal(0, spread, samples))


@pytest.mark.parametrize("samples", [1, 2, 8, 118])
def test_noise_has_no_marks(samples: int) -> None:
    shape = judge([noise(samples)])
    assert (shape.marks, shape.levels, shape.modes) == ((), (), None)


def test_a_level_that_shifts_in_one_pass_is_unstable() -> None:
    times = noise()
    times[100:] *= 1.1
    shape = judge([times])
    assert UNSTABLE in shape.marks
    assert (shape.levels[0], shape.levels[-1]) == pytest.approx((1.0e6, 1.1e6), rel=0.01)


def test_passes_on_other_levels_are_unstable_beyond_the_target() -> None:
    passes = [noise(20), noise(20, seed=2), 1.04 * noise(20, seed=3), noise(20, seed=4)]
    assert judge(passes).marks == (UNSTABLE,)
    assert judge(passes, 0.1).marks == ()


def test_two_modes_that_alternate_are_bimodal_and_stable() -> None:
    times = noise() * np.tile([1.0, 1.0, 1.1, 1.0, 1.1], 40)
    shape = judge([times])
    assert shape.marks == (BIMODAL,)
    assert shape.modes is not None
    assert shape.modes.high.weight == pytest.approx(0.4, abs=0.05)
