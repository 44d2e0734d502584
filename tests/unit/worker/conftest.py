from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import pytest

from busbw.backends.base import CheckOutcome, Identity, Look
from busbw.errors import RankFailed
from busbw.model.case import Case
from busbw.model.collective import Placement
from busbw.world.base import Member, WorldKind, distinct_hosts, reducible

# Long enough for a slow machine; a test that gets here has found ranks that wait for each other.
HANG_SECONDS = 20.0


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
    """A rank of a world in threads; see ``busbw.world.base.World``. Notes the calls of this rank."""

    def __init__(self, exchange: Exchange, rank: int, size: int) -> None:
        self.kind: WorldKind = "nccl"
        self.rank = rank
        self.size = size
        self.launcher = "threads"
        self.members = tuple(Member(i, f"host{i // 8}", 100 + i, i % 8) for i in range(size))
        self.calls: list[str] = []
        self._exchange = exchange

    @property
    def hosts(self) -> tuple[str, ...]:
        return distinct_hosts(self.members)

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
class ScriptedCase:
    """A prepared case whose n-th timed call (over all looks) takes ``call_ns(n)``; notes what it is asked."""

    call_ns: Callable[[int], float]
    slots: int = 1
    check_outcomes: list[CheckOutcome] = field(default_factory=list)
    log: list[tuple[Any, ...]] = field(default_factory=list)
    done: int = 0

    def load(self, seed: int, slot: int) -> None:
        self.log.append(("load", seed, slot))

    def run(self, slot: int, calls: int = 1) -> None:
        self.log.append(("run", slot, calls))

    def check(self, seed: int, slot: int) -> CheckOutcome:
        self.log.append(("check", seed, slot))
        return self.check_outcomes.pop(0) if self.check_outcomes else CheckOutcome(0, -1, 0)

    def time(self, lead: int, samples: int, k: int) -> Look:
        self.log.append(("time", lead, samples, k))
        self.done += lead
        elapsed = np.empty(samples, np.int64)
        for i in range(samples):
            elapsed[i] = round(self.call_ns(self.done) * k)
            self.done += k
        return Look(elapsed, elapsed // 2)

    def close(self) -> None:
        self.log.append(("close",))

    @property
    def looks(self) -> list[tuple[int, int, int]]:
        """(lead, samples, k) of every timed look, the warm-up's left out."""
        return [
            entry[1:] for entry in self.log if entry[0] == "time" and not (entry[1] == 0 and entry[2] == 1)
        ]


class ScriptedBackend:
    """A backend of scripted cases."""

    name = "null"
    max_samples_per_look = 4096

    def __init__(self, case: ScriptedCase, timing_cost_ns: float, identity: Identity | None = None) -> None:
        self.case = case
        self.timing_cost_ns = timing_cost_ns
        self.identity = identity or Identity(library="scripted", version="1", path="")
        self.prepared: list[Case] = []
        self.closed = False

    def connect(self, world: object) -> None:
        return

    def prepare(self, case: Case) -> ScriptedCase:
        self.prepared.append(case)
        return self.case

    def interrupt(self) -> None:
        return

    def close(self) -> None:
        self.closed = True


def run_ranks(size: int, live: Callable[[ThreadWorld], Any]) -> list[Any]:
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

    threads = [threading.Thread(target=rank_main, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    # A broken barrier only says that another rank failed.
    for error in sorted(failures.values(), key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error
    return results


@pytest.fixture
def on_ranks() -> Callable[[int, Callable[[ThreadWorld], Any]], list[Any]]:
    return run_ranks


@pytest.fixture
def scripted() -> type[ScriptedCase]:
    return ScriptedCase


@pytest.fixture
def scripted_backend() -> type[ScriptedBackend]:
    return ScriptedBackend


@pytest.fixture
def case() -> Callable[..., Case]:
    def make(collective: str = "all_reduce", size_bytes: int = 1024, index: int = 0) -> Case:
        op = "sum" if collective == "all_reduce" else ""
        count = size_bytes // 4
        return Case(index, collective, "float", op, -1, size_bytes, size_bytes, count, Placement.OUT_OF_PLACE)

    return make
