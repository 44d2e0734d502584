"""The promise of the printed interval, simulated with the very functions that ranks call."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from busbw_testing.programs import program

RUNS = 40

# (process, target, the coverage promised, the median number of samples that it may cost)
PROMISES = [
    ("independent, 1 %", 0.01, 0.95, 60),
    ("independent, 5 %", 0.025, 0.95, 250),
    ("AR(1) 0.97, 1 %", 0.01, 0.93, 200),
    ("drift 2 % in 1000, noise 1 %", 0.01, 0.95, 60),
    ("shift of 10 % at sample 500, noise 1 %", 0.01, 0.95, 60),
    ("two levels 60%, stay 500", 0.025, 0.80, 150),
    ("two levels 75%, stay 500", 0.025, 0.93, 150),
]


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    """The program that makes the table of benchmarks/stopping: tests and table have one source."""
    return program("benchmarks/stopping/simulate.py")


def named(simulation: ModuleType, name: str, target: float) -> Any:
    return next(each for each in simulation.PROCESSES if (each.name, each.target) == (name, target))


@pytest.mark.parametrize(("name", "target", "promise", "samples"), PROMISES)
def test_the_printed_interval_holds_the_true_median_or_is_marked(
    simulation: ModuleType, name: str, target: float, promise: float, samples: float
) -> None:
    result = simulation.simulate(named(simulation, name, target), RUNS)
    assert result.coverage >= promise - result.margin(promise)
    assert result.missed <= 0.05 + result.margin(0.05)
    assert result.samples <= samples


def test_intervals_of_few_calls_hide_how_alike_they_are(simulation: ModuleType) -> None:
    _, held = simulation.fixed(simulation.autoregressive(0.9, 0.03), 1.0, 20, 200)
    assert held < 0.88  # as the page says
    _, held = simulation.fixed(simulation.independent(0.05), 1.0, 20, 200)
    assert held >= 0.92
