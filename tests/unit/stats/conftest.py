from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
from busbw_testing.programs import program

Draw = Callable[[np.random.Generator, int], np.ndarray]


@pytest.fixture(scope="session")
def simulation() -> ModuleType:
    """The program that makes the table of benchmarks/stopping: tests and table have one source."""
    return program("benchmarks/stopping/simulate.py")


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


@pytest.fixture(params=list(ONE_LEVEL))
def one_level(request: pytest.FixtureRequest) -> Draw:
    """Noise around one level, which no test for modes or shifts may call anything else."""
    return ONE_LEVEL[request.param]
