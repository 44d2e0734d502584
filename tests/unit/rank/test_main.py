from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.ranks import on_ranks, scripted, scripted_backend
from busbw_testing.sweeps import Notes, plan_of, run_on

from busbw.errors import ExitCode, SiteError
from busbw.model.choice import Choice
from busbw.model.plan import CallOptions, Limits, Plan, Timing
from busbw.model.result import Status, StopReason
from busbw.rank import cases, main
from busbw.rank.backends.base import CheckOutcome, DeviceState, Identity
from busbw.rank.world.base import RefusedTogether
from busbw.record.folder import NCCL_FILES


def test_the_null_backend_gives_exact_results() -> None:
    notes = Notes()
    plan = plan_of("all_gather", "sendrecv", ranks=4)
    outcomes = on_ranks(4, lambda world: main.run(world, plan, notes if world.rank == 0 else None))
    assert outcomes == [ExitCode.OK] * 4
    gathered, _, _, _, ring, ring_in_place = notes.results[:6]
    # 1000 ns + 1024 bytes / 100 bytes a ns.
    assert (gathered.time_ns, gathered.low_ns, gathered.high_ns, gathered.mean_ns) == (1010.0,) * 4
    assert gathered.algbw_gb_per_s == pytest.approx(1024 / 1010)
    assert gathered.busbw_gb_per_s == pytest.approx(1024 / 1010 * 3 / 4)
    assert (gathered.status, gathered.stop, gathered.wrong) == (Status.GOOD, StopReason.PRECISION, None)
    assert ring.busbw_gb_per_s == ring.algbw_gb_per_s
    assert (ring_in_place.status, ring_in_place.time_ns) == (Status.NOT_APPLICABLE, None)
    assert (notes.world.size, notes.method.timing_cost_ns) == (4, 10.0)


def test_ranks_that_measured_different_clocks_use_one_k() -> None:
    """k follows from the cost of a clock read. Ranks that each used their own would issue different numbers
    of calls, and wait for each other for ever.
    """
    cases = [scripted(lambda call: 1000.0) for _ in range(2)]
    backends = [scripted_backend(cases[0], 20.0), scripted_backend(cases[1], 55.0)]
    _, notes = run_on(backends, plan_of("all_reduce"))
    assert cases[0].log == cases[1].log
    assert {result.calls_per_sample for result in notes.results} == {6}
    assert notes.method.timing_cost_ns == 55.0
    assert all(backend.closed for backend in backends)


def test_a_wrong_case_keeps_its_time_and_loses_its_bandwidth() -> None:
    bad = CheckOutcome(6, 2, 1)
    cases = [
        scripted(lambda call: 1000.0),
        scripted(lambda call: 1000.0, check_outcomes=[CheckOutcome(0, -1, 0)] * 2 + [bad]),
    ]
    backends = [scripted_backend(case, 10.0) for case in cases]
    plan = plan_of("all_reduce", checks=1, limits=Limits(calls=8))
    outcomes, notes = run_on(backends, plan)
    assert outcomes == [ExitCode.BAD_VERDICT] * 2
    assert [result.status for result in notes.results[:3]] == [Status.GOOD, Status.WRONG, Status.GOOD]
    wrong = notes.results[1]
    assert (wrong.time_ns, wrong.algbw_gb_per_s, wrong.busbw_gb_per_s, wrong.wrong) == (1000.0, None, None, 6)
    assert [(at.rank, at.first_offset) for at in wrong.wrong_at] == [(1, 2)]


def test_a_backend_that_one_rank_cannot_make_is_refused_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def create(plan: Plan, world: Any) -> Any:
        if world.rank == 1:
            raise SiteError("no GPU here", hint="look")
        return scripted_backend(scripted(lambda call: 1.0), 10.0)

    monkeypatch.setattr(main, "create", create)

    def live(world: Any) -> RefusedTogether:
        with pytest.raises(RefusedTogether, match="no GPU here") as refused:
            main.run(world, plan_of("all_reduce"), None)
        return refused.value

    errors = on_ranks(3, live)
    assert {(error.rank, error.hint, error.exit_code) for error in errors} == {
        (1, "look", ExitCode.ENVIRONMENT)
    }


def test_a_window_visits_its_cases_in_turn_and_shows_what_is_known() -> None:
    notes = Notes()
    on_ranks(2, lambda world: main.run(world, plan_of("sendrecv"), notes if world.rank == 0 else None))
    # Sendrecv has no in-place cases; the others are shown after their first pass.
    assert [result.case for result in notes.passes] == [0, 1, 2, 3]
    assert [len(result.pass_samples) for result in notes.passes if result.case == 2] == [1]
    assert [result.case for result in notes.results] == [0, 1, 2, 3]
    assert [result.pass_samples for result in notes.results[::2]] == [(4,) * 9] * 2


# ---- what is not timed ------------------------------------------------------------------------------


def test_without_calls_data_are_checked_and_nothing_is_timed() -> None:
    cases = [
        scripted(lambda call: 1000.0, check_outcomes=[CheckOutcome(0, -1, 7)] * 2),
        scripted(lambda call: 1000.0, check_outcomes=[CheckOutcome(0, -1, 7), CheckOutcome(2, 4, 7)]),
    ]
    backends = [scripted_backend(case, 10.0, marks=("user-op",)) for case in cases]
    outcomes, notes = run_on(backends, plan_of("all_reduce", checks=1, limits=Limits(calls=0)))
    assert outcomes == [ExitCode.BAD_VERDICT] * 2
    assert not [entry for entry in cases[0].log if entry[0] in ("time", "isolated", "loop")]
    first, second = notes.results[:2]
    assert (first.status, first.stop, first.wrong) == (Status.GOOD, StopReason.CHECK_ONLY, 0)
    assert (first.time_ns, first.busbw_gb_per_s, first.samples) == (None, None, 0)
    assert first.conditions == ("user-op",)
    assert (second.status, second.wrong, second.wrong_at[0].rank) == (Status.WRONG, 2, 1)
    assert all(len(kept.samples) == len(kept.digests) == 0 for kept in notes.kept)
    assert cases[0].log.count(("close",)) == len(notes.results)


def test_a_barrier_is_timed_and_not_checked() -> None:
    case = scripted(lambda call: 1000.0)
    plan = plan_of("barrier", checks=3, ranks=1)
    _, notes = run_on([scripted_backend(case, 10.0)], plan)
    timed, in_place = notes.results
    assert (timed.time_ns, timed.algbw_gb_per_s, timed.busbw_gb_per_s) == (1000.0, None, None)
    assert (timed.wrong, timed.conditions) == (None, ())
    assert not [entry for entry in case.log if entry[0] in ("load", "check")]
    assert in_place.error == "barrier has no in-place form on null"


def test_a_reduction_without_check_data_is_measured_and_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of 8-bit integers of very many ranks is 0 whatever they bring; here of as few, by decree."""
    monkeypatch.setattr(cases, "checkable", lambda case, *_: case.size_bytes != 1024)
    case = scripted(lambda call: 1000.0)
    plan = plan_of("all_reduce", checks=2, ranks=1)
    _, notes = run_on([scripted_backend(case, 10.0)], plan)
    assert [(result.wrong, result.conditions) for result in notes.results] == [
        (None, ("unchecked",)),
        (None, ("unchecked",)),
        (0, ()),
        (0, ()),
    ]
    assert all(result.time_ns == 1000.0 for result in notes.results)


# ---- what does not apply ------------------------------------------------------------------------------


def test_what_one_rank_cannot_do_is_skipped_by_all() -> None:
    """The reason of rank 0 is told where it has one; what only another rank cannot is told too."""
    cases = [scripted(lambda call: 1000.0) for _ in range(3)]

    def cannot(rank: int) -> Callable[[Any], str]:
        large = {0: "", 1: "too many elements", 2: ""}[rank]
        in_place = {0: "old library", 1: "", 2: "older library"}[rank]
        return lambda case: (
            large
            if case.size_bytes == 2048 and not case.in_place
            else (in_place if case.size_bytes == 1024 and case.in_place else "")
        )

    backends = [scripted_backend(case, 10.0, cannot=cannot(rank)) for rank, case in enumerate(cases)]
    _, notes = run_on(backends, plan_of("all_reduce", ranks=3))
    assert [(result.status, result.error) for result in notes.results] == [
        (Status.GOOD, ""),
        (Status.NOT_APPLICABLE, "old library"),
        (Status.NOT_APPLICABLE, "another rank's device or library cannot do it"),
        (Status.GOOD, ""),
    ]
    assert [len(backend.prepared) for backend in backends] == [2 * 9] * 3
    assert cases[0].log == cases[1].log == cases[2].log


# ---- what all ranks bring together --------------------------------------------------------------------


@pytest.mark.parametrize("checks", [0, 1])  # with a check, its votes are in the same message
def test_the_slowest_gpu_and_every_reason_of_any_are_told(checks: int) -> None:
    states = [DeviceState(1980, 0x01), None, DeviceState(1410, 0x24), DeviceState(1700, 0x8000)]
    backends = [scripted_backend(scripted(lambda call: 1000.0), 10.0, state=state) for state in states]
    _, notes = run_on(backends, plan_of("all_reduce", ranks=4, checks=checks))
    evidence = notes.results[0].evidence
    assert (evidence["clock_mhz"], evidence["throttle_bits"]) == (1410, 0x8025)
    assert "throttled" in notes.results[0].marks


def test_the_first_call_is_that_of_the_slowest_rank() -> None:
    cases = [scripted(lambda call, first=first: first if call == 0 else 1e6) for first in (2e6, 9e6, 3e6)]
    backends = [scripted_backend(case, 10.0) for case in cases]
    _, notes = run_on(backends, plan_of("all_reduce", ranks=3))
    assert notes.results[0].first_call_ns == 9e6


def test_the_record_is_complete_before_the_libraries_are_taken_down(monkeypatch: pytest.MonkeyPatch) -> None:
    backends = [scripted_backend(scripted(lambda call: 1e3), 10.0) for _ in range(2)]
    closed_at_the_end: list[bool] = []
    monkeypatch.setattr(Notes, "end", lambda self, _: closed_at_the_end.append(backends[0].closed))
    run_on(backends, plan_of("all_reduce"))
    assert closed_at_the_end == [False]
    assert backends[0].closed


def test_memory_is_that_of_the_rank_with_most_of_each_use() -> None:
    used = [{"buffers": 100, "communicator": 7}, {"buffers": 90, "communicator": 2**40}]
    backends = [scripted_backend(scripted(lambda call: 1e3), 10.0, memory_bytes=own) for own in used]
    _, notes = run_on(backends, plan_of("all_reduce"))
    assert notes.memory_bytes == {"buffers": 100, "communicator": 2**40}


@pytest.mark.parametrize(("backend", "marked"), [("mpi", True), ("null", False), ("nccl", False)])
def test_ranks_that_share_cores_are_contended(
    monkeypatch: pytest.MonkeyPatch, backend: str, marked: bool
) -> None:
    """Of CPU ranks only: a rank of a GPU needs its core to issue, not to move."""
    monkeypatch.setattr(main.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(main, "preflight", lambda plan, world: None)
    monkeypatch.setattr(main.CheckFirst, "listen", lambda first: None)  # no NCCL is there to be heard
    backends = [scripted_backend(scripted(lambda call: 1e3), 10.0) for _ in range(3)]
    plan = replace(plan_of("all_reduce", ranks=3), backend=backend)
    _, notes = run_on(backends, plan)
    assert [("contended" in result.conditions) for result in notes.results] == [marked] * 4


@pytest.mark.parametrize(("uuids", "marked"), [("abc", False), ("aba", True), (("", "", ""), False)])
def test_ranks_of_several_hosts_on_one_gpu_are_marked(
    monkeypatch: pytest.MonkeyPatch, uuids: Sequence[str], marked: bool
) -> None:
    monkeypatch.setattr(main, "preflight", lambda plan, world: None)
    identities = [Identity("NCCL", "2", "", device_uuid=uuid) for uuid in uuids]
    cases = [scripted(lambda call: 1e3) for _ in uuids]
    backends = [scripted_backend(case, 10.0, own) for case, own in zip(cases, identities, strict=True)]
    _, notes = run_on(backends, plan_of("all_reduce", ranks=3))
    assert [("shared-gpu" in result.conditions) for result in notes.results] == [marked] * 4


@pytest.mark.parametrize(
    ("show", "options", "backend", "singles"),
    [
        (("p99",), CallOptions(), "mpi", 320),
        (("p50", "p99.9"), CallOptions(), "mpi", 3206),
        (("n", "imbalance", "avg"), CallOptions(), "mpi", 0),
        (("p99",), CallOptions(aggregate=2), "nccl", 0),
        (("p99",), CallOptions(graph=1), "nccl", 0),
        (("p99",), CallOptions(), "null", 0),
    ],
)
def test_single_calls_are_timed_where_what_is_shown_needs_them(
    monkeypatch: pytest.MonkeyPatch, show: tuple[str, ...], options: CallOptions, backend: str, singles: int
) -> None:
    monkeypatch.setattr(main, "preflight", lambda plan, world: None)
    case = scripted(lambda call: 1e3, calls_per_issue=options.aggregate)
    plan = replace(plan_of("all_reduce", ranks=1), show=show, options=options, backend=backend)
    run_on([scripted_backend(case, 20.0)], plan)
    # Each of the passes of four cases has a share, rounded up.
    taken = sum(samples for _, samples, k in case.looks if k == 1)
    assert singles * 4 <= taken <= (singles + 11) * 4


@pytest.mark.parametrize(
    ("timing", "options", "time", "buffers"),
    [
        (Timing(), CallOptions(), "maximum over ranks of elapsed / k", "rotating through the largest size"),
        (
            Timing(time="loop"),
            CallOptions(unalign=3),
            "maximum over ranks of a host loop of elapsed / k",
            "rotating through the largest size, misaligned by 3 elements",
        ),
        (
            Timing(mode="latency", time="rank0", arrival="ramp"),
            CallOptions(register=2),
            "rank 0 of a single call behind a barrier, ranks delayed on purpose (ramp)",
            "rotating through the largest size, symmetric windows",
        ),
    ],
)
def test_the_method_says_what_a_time_is(
    timing: Timing, options: CallOptions, time: str, buffers: str
) -> None:
    notes = Notes()
    plan = replace(plan_of("all_reduce", ranks=1), timing=timing, options=options)
    on_ranks(1, lambda world: main.run(world, plan, notes))
    assert notes.method.time == f"median over samples of the {time}"
    assert (notes.method.mode, notes.method.arrival) == (timing.mode, timing.arrival)
    assert notes.method.buffers == buffers


def test_a_case_has_its_deadline_and_no_other() -> None:
    seen: list[int] = []

    class Watched(main.Deadline):
        def for_case(self, case: Any) -> Any:
            seen.append(case.index)
            return super().for_case(case)

    deadline = Watched(60.0)
    on_ranks(1, lambda world: main.run(world, plan_of("sendrecv", ranks=1), None, deadline))
    assert sorted({*seen}) == [0, 2]  # what does not apply takes no time


def test_a_case_that_fails_gives_back_what_it_took() -> None:
    case = scripted(lambda call: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_on([scripted_backend(case, 10.0)], plan_of("all_reduce", ranks=1))
    assert case.log[-1] == ("close",)


TOLD = Choice("log", "RING", "LL", functions=("AllReduce",))
OTHER = Choice("log", "TREE", "LL", functions=("AllReduce",))


@pytest.mark.parametrize("show", [("algorithm",), ()])
@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ((None, None, TOLD), TOLD),  # one rank of a communicator knows; it need not be rank 0
        ((TOLD, OTHER, TOLD), replace(TOLD, ranks=2, other_ranks=1)),
        ((replace(TOLD, channels=8), TOLD, replace(TOLD, channels=4)),
         replace(TOLD, channels=8, ranks=2, other_ranks=1)),
        ((None, None, None), None),
    ],
)  # fmt: skip
def test_what_the_library_chooses_is_asked_for_once_a_case_where_it_is_shown(
    show: tuple[str, ...], told: tuple[Choice | None, ...], expected: Choice | None
) -> None:
    scripts = [scripted(lambda call: 1e6) for _ in told]
    backends = [scripted_backend(case, 10.0, told=own) for case, own in zip(scripts, told, strict=True)]
    plan = replace(plan_of("all_reduce", ranks=3), show=show)
    _, notes = run_on(backends, plan)
    found = expected if show else None
    assert [result.choice for result in notes.results] == [found] * 4
    assert [result.algorithm for result in notes.results] == ["RING LL" if found else ""] * 4
    asked = [entry for entry in scripts[0].log if entry[0] == "choice"]
    assert asked == [("choice", case) for case in range(4)] * bool(show)


def test_nccl_s_files_are_asked_for_on_rank_0_while_it_connects(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """NCCL reads the variables in its first calls, and rank 0 is the one that writes."""
    names = ("NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    backend = scripted_backend(scripted(lambda call: 1000.0), 10.0)
    seen = []

    def connect(world: Any) -> None:
        seen.append([os.environ[name] for name in names])
        Path(os.environ[names[0]]).write_text("<system/>")

    monkeypatch.setattr(backend, "connect", connect)
    plan = replace(plan_of("all_reduce", ranks=1), backend="nccl", nccl_topology=True)
    monkeypatch.setattr(main, "create", lambda plan, world: backend)
    monkeypatch.setattr(main, "preflight", lambda plan, world: None)
    notes = Notes()
    notes.folder = tmp_path
    on_ranks(1, lambda world: main.run(world, plan, notes))
    assert seen == [[str(tmp_path / name) for name in NCCL_FILES]]
    assert (tmp_path / NCCL_FILES[0]).read_text() == "<system/>"
    missing = [finding.claim for finding in notes.findings if finding.check == "nccl-topology"]
    assert [claim.split("(")[0] for claim in missing] == ["NCCL wrote no nccl-graphs.xml "]
    assert not set(names) & os.environ.keys()
