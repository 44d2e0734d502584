"""Ranks decide alone, from one reduced vector. A decision that differs in one of them hangs the job."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from busbw.model.plan import Limits
from busbw.stats.interval import estimate
from busbw.stats.stopping import judge_look
from busbw.stats.verdict import judge

# What a rank decides from each of many vectors (drawn in whole numbers, which are the same everywhere), and
# every number behind it to the last bit.
RANK = """
import hashlib
import numpy as np
from busbw.model.plan import Limits
from busbw.stats.interval import estimate
from busbw.stats.stopping import judge_look

random, seen = np.random.default_rng(17), hashlib.sha256()
for i in range(60):
    samples = random.integers(8, 1000)
    wander = random.integers(-3000, 3001, samples).cumsum()
    worst_ns = 2_000_000 + wander * (i % 3) + random.integers(0, 20_000 * (i % 5) + 1, samples)
    worst_ns[: i % 16] += 4_000_000
    times_ns = worst_ns / 7
    result = estimate(times_ns, 0.99)
    said = (
        result.median, result.low, result.high, result.tau, result.attained,
        [judge_look(times_ns, samples, float(worst_ns.sum()) / 1e9, Limits(), passes) for passes in (1, 4)],
    )
    seen.update(repr(said).encode())
print(seen.hexdigest())
"""


def rank(**environ: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", RANK],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_old_processor_decides_the_same() -> None:
    # A dot product of floats differs in its last bits between these two processes (another OpenBLAS kernel,
    # another order), and so would any decision made from one.
    from numpy._core import _multiarray_umath as core

    features = " ".join(name for name in core.__cpu_dispatch__ if core.__cpu_features__[name])
    newest = rank(OPENBLAS_NUM_THREADS="4")
    oldest = rank(OPENBLAS_NUM_THREADS="1", OPENBLAS_CORETYPE="Prescott", NPY_DISABLE_CPU_FEATURES=features)
    assert newest == oldest


times = st.lists(st.floats(1.0, 1e9), min_size=8, max_size=120).map(np.array)


def decided(values: np.ndarray, limits: Limits | None = None) -> tuple[object, ...]:
    result = estimate(values, 0.99)
    shape = judge([values])
    return (
        result.low,
        result.high,
        result.tau,
        result.attained,
        shape,
        judge_look(values, len(values), 0.25, limits or Limits(), 4),
    )


@given(times)
def test_how_the_numbers_lie_in_memory_does_not_matter(values: np.ndarray) -> None:
    spread = np.zeros(3 * len(values))
    spread[::3] = values
    assert decided(values) == decided(values.astype(">f8")) == decided(spread[::3])
    assert decided(values) == decided(values[::-1].copy()[::-1])
