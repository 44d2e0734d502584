"""Ranks in threads, and cases whose every call takes the time that a test says."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np

from busbw.errors import RankFailed
from busbw.model.case import Case
from busbw.model.choice import Choice
from busbw.model.collective import collective
from busbw.model.plan import Limits, Timing
from busbw.rank import measure
from busbw.rank.backends.base import (
    Backend,
    CheckOutcome,
    DeviceState,
    Identity,
    Look,
    Strays,
    float_case,
)
from busbw.rank.measure import Conditions, Samples
from busbw.rank.world.base import Member, WorldKind, reducible

# Long enough for a slow machine; a test that gets here has found ranks that wait for each other.
HANG_SECONDS = 20.0
# What reading time costs in scripted cases.
COST_NS = 50.0


class Exchange:
    """Where the ranks of a world in threads meet: everybody brings a value and gets all of them."""

    def __init__(self, size: int) -> None:
        self._barrier = threading.Barrier(size, timeout=HANG_SECONDS)
        self._values: list[Any] = [None] * size

    def all(self, rank: int, kind: str, value: object) -> list[Any]:
        self._values[rank] = (kind, value)
        self._barrier.wait()
        brought = list(self._values)
        self._barrier.wait()
        assert {name for name, _ in brought} == {kind}, f"ranks disagree on the step: {brought}"
        return [value for _, value in brought]

    def abort(self) -> None:
        self._barrier.abort()


class ThreadWorld:
    """A rank of a world in threads; see ``busbw.rank.world.base.World``. Notes the calls of this rank."""

    def __init__(self, exchange: Exchange, rank: int, size: int) -> None:
        self.kind: WorldKind = "nccl"
        self.rank = rank
        self.size = size
        self.launcher = "threads"
        self.members = tuple(Member(i, f"host{i // 8}", 100 + i, i % 8) for i in range(size))
        self.calls: list[str] = []
        self._exchange = exchange

    def _all(self, kind: str, value: object) -> list[Any]:
        self.calls.append(kind)
        return self._exchange.all(self.rank, kind, value)

    def barrier(self) -> None:
        self._all("barrier", None)

    def broadcast(self, data: bytes | None) -> bytes:
        assert (data is None) == (self.rank != 0)
        return bytes(self._all("broadcast", data)[0])

    def max(self, values: Any) -> Any:
        return np.max(np.stack(self._all("max", reducible(values))), axis=0)

    def sum(self, values: Any) -> Any:
        return np.sum(np.stack(self._all("sum", reducible(values))), axis=0)

    def gather(self, data: bytes) -> list[bytes] | None:
        everything = self._all("gather", data)
        return everything if self.rank == 0 else None

    def fail(self, message: str) -> NoReturn:
        raise RankFailed(message, rank=self.rank)

    def close(self) -> None:
        return


@dataclass
class scripted:  # noqa: N801 (used like a function)
    """A prepared case whose n-th timed call (over all looks) takes ``call_ns(n)``; notes what it is asked.

    Issuing takes ``issue_share`` of it; isolated calls enter at ``entry_ns(n)`` of the host's clock.
    """

    call_ns: Callable[[int], float]
    slots: int = 1
    calls_per_issue: int = 1
    max_calls: int = sys.maxsize
    check_outcomes: list[CheckOutcome] = field(default_factory=list)
    found_strays: Strays = field(default_factory=Strays)
    issue_share: float = 0.5
    entry_ns: Callable[[int], int] | None = None
    log: list[tuple[Any, ...]] = field(default_factory=list)
    done: int = 0

    def load(self, seed: int, slot: int) -> None:
        self.log.append(("load", seed, slot))

    def run(self, slot: int, calls: int = 1) -> None:
        self.log.append(("run", slot, calls))

    def check(self, seed: int, slot: int) -> CheckOutcome:
        self.log.append(("check", seed, slot))
        return self.check_outcomes.pop(0) if self.check_outcomes else CheckOutcome(0, -1, 0)

    def run_checked(self, seed: int, slot: int, issue: Any = None) -> CheckOutcome:
        (issue or self.run)(slot)
        return self.check(seed, slot)

    def guard(self) -> None:
        self.log.append(("guard",))

    def strays(self) -> Strays:
        self.log.append(("strays",))
        return self.found_strays

    def time(self, lead: int, samples: int, k: int) -> Look:
        self.log.append(("time", lead, samples, k))
        self.done += lead
        elapsed = self._next(samples, k)
        return Look(elapsed, (elapsed * self.issue_share).astype(np.int64))

    def time_isolated(self, samples: int, delay_ns: Any, *, barrier: bool) -> Look:
        self.log.append(
            ("isolated", samples, None if delay_ns is None else tuple(delay_ns.tolist()), barrier)
        )
        entry = None
        if self.entry_ns is not None:
            entry = np.array([self.entry_ns(self.done + i) for i in range(samples)], np.int64)
        elapsed = self._next(samples, 1)
        return Look(elapsed, elapsed, entry)

    def time_loop(self, calls: int) -> int:
        self.log.append(("loop", calls))
        return int(self._next(1, calls)[0])

    def close(self) -> None:
        self.log.append(("close",))

    def _next(self, samples: int, k: int) -> Any:
        elapsed = np.empty(samples, np.int64)
        for i in range(samples):
            elapsed[i] = round(self.call_ns(self.done) * k)
            self.done += k
        return elapsed

    @property
    def looks(self) -> list[tuple[int, int, int]]:
        """(lead, samples, k) of every timed look, the warm-up's left out."""
        return [
            entry[1:] for entry in self.log if entry[0] == "time" and not (entry[1] == 0 and entry[2] == 1)
        ]

    @property
    def warm_up(self) -> list[int]:
        """The calls of every round of the warm-up."""
        return [entry[3] for entry in self.log if entry[0] == "time" and entry[1:3] == (0, 1)]


class scripted_backend(Backend):  # noqa: N801 (used like a function)
    """A backend of scripted cases."""

    name = "null"
    max_samples_per_look = 4096

    def __init__(
        self,
        case: scripted | None,
        timing_cost_ns: float,
        identity: Identity | None = None,
        *,
        state: DeviceState | None = None,
        cannot: Callable[[Case], str] = lambda case: "",
        marks: tuple[str, ...] = (),
        memory_bytes: dict[str, int] | None = None,
        told: Choice | None = None,
    ) -> None:
        self.case = case
        self.told = told
        self._state, self._cannot, self._marks = state, cannot, marks
        self._memory_bytes = memory_bytes or {}
        self.timing_cost_ns = timing_cost_ns
        self.identity = identity or Identity(library="scripted", version="1", path="")
        self.prepared: list[Case] = []
        self.closed = False

    def prepare(self, case: Case) -> Any:
        self.prepared.append(case)
        return self.case

    def inapplicable(self, case: Case) -> str:
        return self._cannot(case)

    def conditions(self, case: Case) -> tuple[str, ...]:
        return self._marks

    def choice(self, case: Case, prepared: object) -> Choice | None:
        self.case.log.append(("choice", case.index))
        return self.told

    def device_state(self) -> DeviceState | None:
        return self._state

    def memory_report(self) -> dict[str, int]:
        return self._memory_bytes

    def close(self) -> None:
        self.closed = True


def on_ranks(size: int, live: Callable[[ThreadWorld], Any]) -> list[Any]:
    """``live(world)`` on every rank at once; raises the first rank's failure."""
    exchange = Exchange(size)
    results: list[Any] = [None] * size
    failures: dict[int, BaseException] = {}

    def rank_main(rank: int) -> None:
        try:
            results[rank] = live(ThreadWorld(exchange, rank, size))
        except BaseException as error:  # noqa: BLE001 (raised again by the test's own thread)
            failures[rank] = error
            exchange.abort()

    threads = [threading.Thread(target=rank_main, args=(rank,), name=f"rank {rank}") for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    # A broken barrier only says that another rank failed.
    for error in sorted(failures.values(), key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error
    return results


def conditions(world: Any, **changed: Any) -> Conditions:
    """What holds for every case: the defaults of a run but for what a test changes."""
    usual = {"limits": Limits(), "timing": Timing(), "timing_cost_ns": COST_NS, "max_samples_per_look": 4096}
    return Conditions(world=world, **{**usual, **changed})


def measured(cases: list[Any], limits: Limits, **changed: Any) -> list[Samples]:
    """The samples of every rank, a case each."""

    def live(world: Any) -> Samples:
        return measure.measure(cases[world.rank], conditions(world, limits=limits, **changed), limits)

    return on_ranks(len(cases), live)


def case(name: str = "all_reduce", size_bytes: int = 1024, index: int = 0) -> Case:
    """A case of floats out of place."""
    op = "sum" if collective(name).reducing else ""
    return replace(float_case(name, size_bytes, op), index=index)
