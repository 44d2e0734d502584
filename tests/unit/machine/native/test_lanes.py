"""Several calls at once: what the loop starts, tests and times, with stand-ins for the MPI functions."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from busbw.machine.native import core

ALL_REDUCE = 0
P, INT = ctypes.c_void_p, ctypes.c_int
START = ctypes.CFUNCTYPE(INT, P, P, INT, INT, INT, INT, P)
CALL = ctypes.CFUNCTYPE(INT, P, P, INT, INT, INT, INT)
TEST = ctypes.CFUNCTYPE(INT, P, ctypes.POINTER(INT), P)


@dataclass
class StandIn:
    """An MPI in which a call of a communicator ends after so many tests; notes what it is asked, in order."""

    tests: dict[int, int]
    log: list[tuple[str, int]] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    fails: str = ""
    left: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._start, self._test, self._call = START(self._started), TEST(self._tested), CALL(self._called)

    def _started(self, send: int, *arguments: Any) -> int:
        comm, request = arguments[-2], arguments[-1]
        assert comm not in self.left, "a call was started before the last one of its lane had ended"
        self.left[comm] = self.tests[comm]
        ctypes.c_int32.from_address(request).value = comm
        self.log.append(("start", comm))
        self.slots.append(send or 0)
        return 7 if self.fails == "start" else 0

    def _tested(self, request: int, done: Any, status: int) -> int:
        comm = ctypes.c_int32.from_address(request).value
        self.log.append(("test", comm))
        self.left[comm] -= 1
        done[0] = self.left[comm] == 0
        if done[0]:
            del self.left[comm]
        return 9 if self.fails == "test" else 0

    def _called(self, *arguments: Any) -> int:
        raise AssertionError("a lane is never issued as a call that blocks")

    def call(self, comm: int, *, startable: bool = True, slots: int = 1) -> core.Call:
        spec = core.MpiSpec(
            collective=ALL_REDUCE,
            handle_bytes=4,
            rank=0,
            ranks=2,
            scale_op=-1,
            function=ctypes.cast(self._call, P).value,
            start_function=ctypes.cast(self._start, P).value if startable else None,
            comm=comm,
            send=1000,
            recv=2000,
            send_count=1,
            recv_count=1,
            rotation=core.Rotation(100, 100, slots),
        )
        return core.Call.mpi(spec)

    @property
    def test_address(self) -> int:
        return ctypes.cast(self._test, P).value or 0


@pytest.fixture
def calls() -> Iterator[list[core.Call]]:
    made: list[core.Call] = []
    yield made
    for call in made:
        call.close()


def lanes(mpi: StandIn, calls: list[core.Call], wanted: list[int], **options: int) -> list[core.Lane]:
    calls += [mpi.call(comm, **options) for comm in range(1, len(wanted) + 1)]
    return [core.Lane(call, count) for call, count in zip(calls, wanted, strict=True)]


def test_all_lanes_are_started_before_any_is_tested_and_go_on_while_others_are_busy(
    calls: list[core.Call],
) -> None:
    mpi = StandIn({1: 1, 2: 3})
    core.time_lanes_host(lanes(mpi, calls, [3, 1]), mpi.test_address, 0, 1)
    assert mpi.log == [
        *(("start", 1), ("start", 2)),
        *(("test", 1), ("start", 1), ("test", 2)),
        *(("test", 1), ("start", 1), ("test", 2)),
        *(("test", 1), ("test", 2)),
    ]


def test_a_round_begins_when_all_lanes_have_ended(calls: list[core.Call]) -> None:
    mpi = StandIn({1: 1, 2: 5})
    rounds = core.time_lanes_host(lanes(mpi, calls, [2, 1]), mpi.test_address, 1, 2)
    starts = [comm for what, comm in mpi.log if what == "start"]
    assert starts == [1, 2, 1] * 3  # one untimed round, two timed ones
    ends = [at for at, (what, comm) in enumerate(mpi.log) if (what, comm) == ("test", 2)]
    begins = [at for at, entry in enumerate(mpi.log) if entry == ("start", 1)]
    assert begins[2] > ends[4]
    assert begins[4] > ends[9]
    assert rounds.begin_ns.shape == rounds.end_ns.shape == (2, 2)
    assert (rounds.end_ns > rounds.begin_ns).all()
    # Lane 2 ends last; both begin before either ends; the second round begins after the first.
    assert (rounds.end_ns[1] > rounds.end_ns[0]).all()
    assert (rounds.begin_ns[1] < rounds.end_ns[0]).all()
    assert rounds.begin_ns[0, 1] > rounds.end_ns[1, 0]


def test_slots_go_round_from_the_first_one_asked_for(calls: list[core.Call]) -> None:
    mpi = StandIn({1: 1})
    (lane,) = lanes(mpi, calls, [2], slots=3)
    core.time_lanes_host([core.Lane(lane.call, 2, slot=2)], mpi.test_address, 0, 2)
    assert mpi.slots == [1200, 1000, 1100, 1200]


@pytest.mark.parametrize(("fails", "code"), [("start", 7), ("test", 9)])
def test_a_failed_call_ends_the_look(calls: list[core.Call], fails: str, code: int) -> None:
    mpi = StandIn({1: 1, 2: 1}, fails=fails)
    with pytest.raises(core.CallError) as caught:
        core.time_lanes_host(lanes(mpi, calls, [1, 1]), mpi.test_address, 0, 1)
    assert caught.value.status == code


@pytest.mark.parametrize(("wanted", "startable"), [(1, False), (0, True)])
def test_what_cannot_be_started_or_has_no_calls_is_refused(
    calls: list[core.Call], wanted: int, startable: bool
) -> None:
    mpi = StandIn({1: 1})
    with pytest.raises(core.CallError) as caught:
        core.time_lanes_host(lanes(mpi, calls, [wanted], startable=startable), mpi.test_address, 0, 1)
    assert caught.value.status == -1
    assert mpi.log == []
