"""By how much launches differ, by history: of this machine, alike, without what was out of line."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from busbw_testing.compared import record_of

from busbw.judge import launch_history
from busbw.judge.launch_history import launch_of, prior_of
from busbw.judge.scatter import DEVICE_BOUND, HOST_BOUND, Scatter
from busbw.model.history import KeptCase, Launch, Measured
from busbw.model.record import ImportSource, RunRecord, RunStatus

MIB = 2**20


NCCL = {"backend": "nccl"}
RUN = record_of({MIB: 100.0}, plan=NCCL)
# Twenty launches with 3 % of scatter, where the default of 1 % counts as ten.
EXPECTED = pytest.approx(0.025, rel=0.15)


def history(levels: Sequence[float], alike: str = "x", seed: int = 1, first_bytes: int = MIB) -> list[Launch]:
    """Launches in order, each with a level of its own beside 3 % of scatter at each size."""
    draw = random.Random(seed)
    sizes = [first_bytes * 2**power for power in range(8)]
    return [
        Launch(
            f"run-{number}", f"2026-11-27T00:{number:02}:00", launch_history.testbed_of(RUN), alike,
            {
                KeptCase("all_reduce", "kind", size): Measured(1e5 * level * (1 + draw.gauss(0, 0.03)))
                for size in sizes
            },
        )
        for number, level in enumerate(levels)
    ]  # fmt: skip


def known(launches: Sequence[Launch], run: RunRecord = RUN, size_bytes: int = MIB) -> Scatter:
    return prior_of(launches, run).of("all_reduce", size_bytes)


def test_the_scatter_of_launches_is_found_and_slow_drift_is_none() -> None:
    assert known(history([1.0] * 20)).deviation == EXPECTED
    drifting = known(history([1 + number / 200 for number in range(20)]))
    assert (drifting.deviation, drifting.launches) == (EXPECTED, 20)


def test_one_faulty_run_in_five_does_not_move_it() -> None:
    found = known(history([1.3 if number % 5 == 3 else 1.0 for number in range(25)]))
    assert (found.deviation, found.launches) == (EXPECTED, 20)


def test_levels_of_host_bound_sizes_all_count() -> None:
    """There healthy launches fall on levels, and slow ones are no fault."""
    levels = [1.4 if number % 5 == 3 else 1.0 for number in range(40)]
    found = known(history(levels, first_bytes=8), size_bytes=8)
    assert (found.deviation, found.launches) == (pytest.approx(0.15, abs=0.02), 40)
    steady = known(history([1.0] * 40, first_bytes=8), size_bytes=8)
    assert steady.deviation < 0.08


def test_fewer_than_four_launches_leave_the_default() -> None:
    assert known(history([1.0] * 3)) == Scatter(DEVICE_BOUND)
    assert known(history([1.0] * 4)).launches == 4
    assert known(history([1.0] * 4), size_bytes=8) == Scatter(HOST_BOUND)
    assert prior_of(history([1.0] * 4), RUN).of("alltoall", MIB).launches == 4  # that of all operations


def test_unlike_settings_are_never_compared_and_other_machines_say_nothing() -> None:
    """Twice as long with other settings, in turn: the difference is none of launches."""
    fast, slow = history([1.0] * 10, seed=1), history([2.0] * 10, alike="y", seed=2)
    assert known([*fast, *slow]).deviation == EXPECTED
    assert known(fast, record_of({MIB: 100.0}, ranks=4, plan=NCCL)) == Scatter(DEVICE_BOUND)


def test_launches_with_another_variable_or_table_are_not_alike() -> None:
    """A variable of a setup that no list knows, as I_MPI_ADJUST_ALLREDUCE."""

    def alike(run: RunRecord, **variables: str) -> str:
        told = {"variables": {"HOME": run.run_id, **variables}, "given": tuple(variables)}
        kept = launch_of(replace(run, environment=told), "a")
        assert kept is not None
        return kept.alike

    other = replace(RUN, run_id="other")
    table = replace(RUN, plan=replace(RUN.plan, tuner_table="allreduce,8,8,ring,ll,4"))
    assert alike(RUN) == alike(other)
    assert len({alike(RUN), alike(RUN, MINE="1"), alike(RUN, MINE="2"), alike(table)}) == 4


def test_a_run_is_not_judged_by_itself() -> None:
    assert known(history([1.0] * 4), replace(RUN, run_id="run-2")) == Scatter(DEVICE_BOUND)


def test_what_is_kept_of_a_run_and_of_which_runs() -> None:
    kept = launch_of(RUN, "a/launches/1")
    assert kept is not None
    case = KeptCase("all_reduce", "all_reduce float sum out-of-place", MIB)
    assert kept.cases == {case: Measured(100_000.0, pytest.approx(MIB))}
    others = (
        replace(RUN, status=RunStatus.FAILED),
        record_of({MIB: [100.0, 101.0]}),  # a summary of launches
    )
    assert [launch_of(other, "b") for other in others] == [None] * 2
    log = launch_of(replace(RUN, source=ImportSource("a.log", "nccl-tests")), "c")
    assert log is not None
    assert log.imported
