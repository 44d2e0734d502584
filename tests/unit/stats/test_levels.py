from __future__ import annotations

import math

import numpy as np
import pytest

from busbw.stats.levels import HISTORY, SETTLED, Change, Level, LevelWatch

Values = np.ndarray


def changes(values: Values) -> list[Change]:
    watch = LevelWatch()
    return [change for value in values if (change := watch.add(float(value))) is not None]


def noise(count: int, seed: int = 1, scatter: float = 0.01) -> Values:
    return np.random.default_rng(seed).normal(0, scatter, count)


def test_nothing_is_found_in_noise_with_outliers() -> None:
    random = np.random.default_rng(3)
    assert changes(noise(600)) == []
    assert changes(noise(600) + 0.3 * (random.random(600) < 0.05)) == []


def test_a_loss_that_ends_is_found_with_its_windows_and_size() -> None:
    values = noise(200)
    values[100:130] += 0.10
    begun, ended = changes(values)
    assert begun.last is None
    assert abs(begun.first - 100) <= 1
    assert (abs(ended.first - 100) <= 1, abs((ended.last or 0) - 129) <= 1) == (True, True)
    assert ended.share == pytest.approx(math.expm1(-0.10), abs=0.01)


def test_a_level_that_stays_is_the_one_that_others_are_held_against() -> None:
    values = noise(300)
    values[100:] -= 0.10
    values[250:] += 0.20
    faster, slower = changes(values)
    assert faster.share > 0
    assert abs(slower.first - 250) <= 1
    assert slower.share == pytest.approx(math.expm1(-0.20), abs=0.01)
    assert slower.first - faster.first > SETTLED


def test_a_great_loss_is_found_while_few_windows_of_a_wandering_level_are_known() -> None:
    """Windows of a link of 200 Mbit/s on a busy machine, then at a quarter of its rate."""
    wandering = 0.15 * np.sin(np.arange(40) / 4)
    values = np.concatenate((wandering, np.full(6, math.log(4)))) + noise(46, scatter=0.02)
    (begun,) = changes(values)
    assert begun.first == 40
    assert begun.share == pytest.approx(-0.75, abs=0.05)


def test_a_change_under_two_percent_is_none() -> None:
    values = noise(400, scatter=0.001)
    values[200:] += 0.015
    assert changes(values) == []


def test_scores_are_those_of_a_normal_distribution_whatever_the_shape() -> None:
    level = Level(np.sort(np.exp(5 * noise(400))), 1.0)
    found = level.scores(level.ordered)
    assert found.mean() == pytest.approx(0, abs=0.01)
    assert found.std() == pytest.approx(1, abs=0.03)


def watched(values: Values) -> LevelWatch:
    watch = LevelWatch()
    for value in values:
        watch.add(float(value))
    return watch


def test_power_grows_with_the_loss_and_its_time() -> None:
    watch = watched(noise(300, scatter=0.03))
    windows = watch.shortest(0.05, 0.95)
    assert windows is not None
    assert watch.power(0.05, windows - 2) < 0.95 <= watch.power(0.05, windows) < 0.995
    assert watch.power(0.05, windows) < watch.power(0.08, windows)
    assert watched(noise(300, scatter=0.3)).shortest(0.05, 0.95) is None
    assert watched(noise(30)).shortest(0.5, 0.95) is None


def test_what_is_said_to_be_seen_is_seen() -> None:
    """A loss of 5 % in 60 soaks, for as long as each says, from its 100th window on."""
    seen = 0
    for seed in range(60):
        values = noise(200, seed + 10, 0.02)
        windows = watched(values).shortest(0.05, 0.95)
        assert windows is not None
        values[100 : 100 + windows] -= math.log1p(-0.05)
        seen += any(change.share < 0 for change in changes(values[: 100 + windows]))
    assert seen >= 54


def test_it_keeps_a_fixed_number_of_windows() -> None:
    one, other = watched(noise(HISTORY + 100)), watched(noise(2 * HISTORY))
    sizes = [
        {name: len(value) for name, value in vars(watch).items() if isinstance(value, list)}
        for watch in (one, other)
    ]
    assert sizes[0] == sizes[1]
    assert max(sizes[0].values()) == HISTORY
