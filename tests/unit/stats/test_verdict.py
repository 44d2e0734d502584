from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from busbw.model.mark import MARKS
from busbw.model.plan import Limits
from busbw.stats.stopping import judge_look, next_look
from busbw.stats.verdict import BIMODAL, UNSTABLE, judge

Draw = Callable[[np.random.Generator, int], np.ndarray]


def noise(samples: int = 200, spread: float = 0.01, seed: int = 1) -> np.ndarray:
    return 1e6 * np.exp(np.random.default_rng(seed).normal(0, spread, samples))


@pytest.mark.parametrize("samples", [1, 2, 8, 118])
def test_noise_has_no_marks(samples: int) -> None:
    shape = judge(noise(samples))
    assert (shape.marks, shape.shift, shape.modes) == ((), None, None)


def test_marks_are_rare_on_one_level(one_level: Draw) -> None:
    random = np.random.default_rng(20_263)
    assert sum(bool(judge(one_level(random, 118)).marks) for _ in range(300)) <= 3


def test_a_level_shift_is_unstable_and_its_two_levels_are_modes() -> None:
    times = noise()
    times[100:] *= 1.1
    shape = judge(times)
    assert UNSTABLE in shape.marks
    assert shape.shift is not None
    assert (shape.shift.before, shape.shift.after) == pytest.approx((1.0e6, 1.1e6), rel=0.01)


def test_a_shift_away_from_the_middle_is_unstable_by_its_autocorrelation() -> None:
    # It makes the second half alike in itself, so the halves are no evidence; the whole series is.
    times = noise(300)
    times[210:] *= 1.1
    shape = judge(times)
    assert UNSTABLE in shape.marks
    assert shape.tau > 20


def test_a_boost_that_ends_is_sampled_marked_and_not_cut() -> None:
    # Faster until the power cap: 12 samples of 100, so the halves' medians hardly differ.
    for seed in range(20):
        times = noise(1000, 0.02, seed)
        times[12:] *= 1.1
        looked = next_look(0)
        while (look := judge_look(times[:looked], looked, 0.0, Limits())).stop is None:
            looked = next_look(looked)
        shape = judge(times[look.settling : looked])
        assert look.settling == 0
        assert UNSTABLE in shape.marks
        assert shape.shift is not None
        assert (shape.shift.before, shape.shift.after) == pytest.approx((1.0e6, 1.1e6), rel=0.03)


def test_two_modes_that_alternate_are_bimodal_and_stable() -> None:
    times = noise() * np.tile([1.0, 1.0, 1.1, 1.0, 1.1], 40)
    shape = judge(times)
    assert shape.marks == (BIMODAL,)
    assert shape.modes is not None
    assert shape.modes.high.weight == pytest.approx(0.4, abs=0.05)


def test_a_slow_swing_is_unstable_without_any_shift() -> None:
    # Four whole waves: both halves alike, neighbours very alike.
    times = noise(800, 0.002) * (1 + 0.05 * np.sin(np.arange(800) * 8 * np.pi / 800))
    shape = judge(times)
    assert shape.shift is None
    assert shape.tau > 20
    assert shape.marks == (UNSTABLE,)


def test_a_swing_within_the_target_is_no_mark() -> None:
    times = noise(800, 0.0002) * (1 + 0.002 * np.sin(np.arange(800) * 8 * np.pi / 800))
    assert judge(times).tau > 20
    assert judge(times, 0.01).marks == ()
    assert judge(times, 0.001).marks == (UNSTABLE,)


def test_evidence_is_json_and_says_only_what_there_is() -> None:
    times = noise()
    assert sorted(judge(times).evidence()) == ["outliers", "tau"]
    times[100:] *= 1.1
    evidence = json.loads(json.dumps(judge(times).evidence(), allow_nan=False))
    assert evidence["shift"]["p"] < 1e-4
    flat = judge(np.tile([1e6, 1e6, 1.1e6], 30)).evidence()
    assert json.loads(json.dumps(flat, allow_nan=False))["modes"]["gap_mads"] is None


def test_the_marks_are_words_of_the_model() -> None:
    assert {UNSTABLE, BIMODAL} <= {mark.name for mark in MARKS}
