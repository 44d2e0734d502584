"""How often a good run is below its bound: no more often than the bound says, for any number of launches."""

from __future__ import annotations

import math
import random

import pytest
from busbw_testing.compared import record_of, reference_of

from busbw.judge.expectation import Judgement, expect
from busbw.judge.scatter import Prior, Scatter, SizeClass

SIZES = tuple(2**power for power in range(10, 50))
RATE = 0.02  # as often as this, so that few trials show it
ROUNDS = 75
SCATTER = 0.1


def drawn(draw: random.Random, launches: int) -> dict[int, tuple[float, ...]]:
    """Times of independent cases of one speed."""
    return {size: tuple(100 * math.exp(draw.gauss(0, SCATTER)) for _ in range(launches)) for size in SIZES}


@pytest.mark.parametrize(("new", "known"), [(1, 1), (1, 3), (10, 3), (3, 10)])
def test_good_runs_are_below_the_bound_at_most_as_often_as_it_says(
    new: int, known: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3000 cases. Where the history is right, as here, a few launches are judged more mildly than that."""
    monkeypatch.setattr("busbw.stats.launches.FALSE_ALARM", RATE)
    draw = random.Random(100 * new + known)
    prior = Prior(True, {("", sizes): Scatter(SCATTER, 12) for sizes in SizeClass})
    below = 0
    for _ in range(ROUNDS):
        times = {size: run if len(run) > 1 else run[0] for size, run in drawn(draw, new).items()}
        run = record_of(times, within=0.0)
        below += expect([run], [reference_of(drawn(draw, known))], tolerance=0.0, prior=prior).count(
            Judgement.BELOW
        )
    cases = ROUNDS * len(SIZES)
    assert RATE / 50 < below / cases < RATE + 4 * math.sqrt(RATE * (1 - RATE) / cases)


def test_several_launches_are_held_by_their_geometric_means() -> None:
    """Of the run and of the reference: one odd launch of three moves both, and no median."""
    known = reference_of({1024: (100.0, 100.0, 130.0), 2048: (200.0, 200.0, 260.0)})
    (exact,) = expect([record_of({1024: [90.0, 90.0, 120.0]})], [known]).cases
    assert exact.expected_gb_per_s == pytest.approx(1024 / (100 * 1.3 ** (1 / 3)) / 1e3)
    assert exact.measured_gb_per_s == pytest.approx(1024 / (90 * (4 / 3) ** (1 / 3)) / 1e3)
    (between,) = expect([record_of({1448: 141.0})], [known]).cases
    assert between.interpolated
    assert between.expected_gb_per_s == pytest.approx(exact.expected_gb_per_s)
