"""Ranks cannot diverge: whatever each of them sees, all issue the same calls and come to the same result.

A rank that decided by its own clock would issue another number of calls than the others, and every rank would
wait for ever. The world in these tests notices that at once: ranks that take different steps fail it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from busbw_testing.ranks import case, conditions, on_ranks, scripted
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from busbw.model.plan import Limits, Timing
from busbw.rank import measure as module
from busbw.rank.descheduled import CoreClock
from busbw.rank.measure import measure, measure_again
from busbw.rank.summarize import summarize
from busbw.rank.world.clock import GlobalClock
from busbw.rank.world.clock_model import Line

SHOW = ("p50", "p99", "avg", "min", "max", "cv", "imbalance", "n", "issue", "skew", "first")
MODES = (
    *(Timing(time=time) for time in ("max", "avg", "min", "rank0", "loop")),
    *(Timing(mode="latency", time=time) for time in ("max", "avg", "min", "rank0", "last", "span")),
    *(Timing(mode="latency", arrival=arrival) for arrival in ("late-one", "uniform", "ramp")),
    Timing(mode="latency", barrier=False),
)
small_looks = st.integers(1, 64)
limits_of_any_kind = st.builds(
    Limits,
    calls=st.none() | st.integers(1, 120),
    warmup_calls=st.none() | st.integers(0, 30),
    precision=st.sampled_from([0.0005, 0.01, 0.05, 0.3]),
    small_precision=st.sampled_from([0.001, 0.025, 0.3]),
    max_samples=st.integers(1, 120),
    case_seconds=st.sampled_from([1e-6, 1e-3, 0.02, 0.1]),
)


def local_times(seed: int, rank: int, pace_ns: float) -> Callable[[int], float]:
    """A rank's own times: another pace, noise, slow calls, a slow start and a level that shifts."""
    chance = np.random.default_rng((seed, rank))
    values = pace_ns * chance.uniform(0.5, 2.0) * chance.lognormal(0, chance.uniform(0, 0.5), 1024)
    values[chance.random(1024) < chance.choice([0.0, 0.01, 0.2])] *= 20
    if chance.random() < 0.3:
        values[512:] *= 1.5
    cold = chance.integers(0, 80) if chance.random() < 0.3 else 0
    return lambda call: float(values[call % 1024]) * (50 if call < cold else 1)


class LocalClocks:
    """Every rank loses its core, or sees a clock step, at moments of its own."""

    def __init__(self, seed: int) -> None:
        self._chance: dict[str, tuple[np.random.Generator, list[int]]] = {}
        self._seed = seed

    def now(self) -> CoreClock:
        import threading

        name = threading.current_thread().name
        chance, wall = self._chance.setdefault(
            name, (np.random.default_rng((self._seed, int(name.removeprefix("rank ")))), [0, 0, 0])
        )
        wall[0] += 10_000_000
        wall[1] += 10_000_000 - (int(chance.integers(10**7)) if chance.random() < 0.3 else 0)
        wall[2] += 10_000_000 + (10**9 if chance.random() < 0.02 else 0)
        return CoreClock(wall[0], wall[1], wall[0], wall[2])


def clock(rank: int, ranks: int) -> GlobalClock:
    return GlobalClock(Line(0, rank * 10**9, rank * 1e-6), 0, 300.0, 50.0 * rank, 1e-8, (0,) * ranks)


@settings(
    max_examples=60,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    # Ranks that wait for each other take long to be found out; nobody needs the smallest example.
    phases=[Phase.generate],
)
@given(
    ranks=st.integers(2, 5),
    seed=st.integers(0, 2**32),
    pace_ns=st.sampled_from([30.0, 1e3, 2e4, 1e6, 3e7]),
    limits=limits_of_any_kind,
    timing=st.sampled_from(MODES),
    group=st.sampled_from([1, 1, 1, 3, 8]),
    chunk=small_looks | st.just(4096),
    contended=st.booleans(),
    singles=st.sampled_from([0, 50]),
    clocks_known=st.booleans(),
    graph_launches=st.sampled_from([0, 0, 3]),
)
def test_all_ranks_make_the_same_calls_and_the_same_result(
    *,
    ranks: int,
    seed: int,
    pace_ns: float,
    limits: Limits,
    timing: Timing,
    group: int,
    chunk: int,
    contended: bool,
    singles: int,
    clocks_known: bool,
    graph_launches: int,
) -> None:
    single = timing.mode == "latency"
    cases = [
        scripted(
            local_times(seed, rank, pace_ns),
            calls_per_issue=1 if single else group,
            max_calls=24 if graph_launches and not single else 2**62,
            entry_ns=lambda call, late=rank: call * 1000 + late,
        )
        for rank in range(ranks)
    ]

    def live(world: Any) -> tuple[Any, list[str]]:
        given_here = conditions(
            world,
            limits=limits,
            timing=timing,
            max_samples_per_look=chunk,
            contended=contended,
            singles=singles if group == 1 else 0,
            seed=seed,
            graph_launches=0 if single else graph_launches,
            clock=clock(world.rank, ranks) if clocks_known and single else None,
        )
        samples = measure(cases[world.rank], given_here, limits)
        while not samples.complete:
            samples = measure_again(samples, cases[world.rank], given_here, limits)
        return summarize(case(), samples, None, given_here, show=SHOW), list(world.calls)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CoreClock", LocalClocks(seed))
        found = on_ranks(ranks, live)

    issued = [[entry for entry in prepared.log if entry[0] in ("time", "loop")] for prepared in cases]
    isolated = [
        [(entry[1], entry[3]) for entry in prepared.log if entry[0] == "isolated"] for prepared in cases
    ]
    assert all(own == issued[0] for own in issued)
    assert all(own == isolated[0] for own in isolated)
    assert len({prepared.done for prepared in cases}) == 1
    results = [asdict(result) for result, _ in found]
    assert all(repr(result) == repr(results[0]) for result in results)
    assert all(calls == found[0][1] for _, calls in found)
