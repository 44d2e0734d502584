"""What a test takes, from what both of its ends measured, and how many messages it is made of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from busbw_testing.ranks import on_ranks, scripted, scripted_backend

from busbw.hunt.field import fields
from busbw.model.hunt import BANDWIDTH, LATENCY, RESENT, Hunt, Round, Rules, Stage
from busbw.rank.backends.base import Look, WithoutData
from busbw.rank.hunt.rounds import _pair_test, _Tester, _with_gpus
from busbw.rank.process import Deadline

(FIELD,) = fields(["a", "b"])


def test_a_message_has_ended_when_it_has_for_both_and_the_second_shortest_counts() -> None:
    first = {BANDWIDTH: ([5.0, 9.0, 7.0], [1.0, 1.0, 1.0])}
    second = {BANDWIDTH: ([8.0, 4.0, 6.0], [3.0, 2.0, 4.0])}
    assert _pair_test(FIELD, (0, 1), [first, second]).times_ns[BANDWIDTH] == ((8.0,), (3.0,))


def test_a_step_of_a_ring_is_what_its_two_ends_took_and_has_no_way_back() -> None:
    first, second = {BANDWIDTH: ([5.0, 9.0, 7.0], [])}, {BANDWIDTH: ([8.0, 4.0, 6.0], [])}
    assert _pair_test(FIELD, (0, 1), [first, second]).times_ns == {BANDWIDTH: ((8.0,), ())}


@pytest.mark.parametrize(
    ("queued", "expected"), [((0.0, 0.0), 100.0), ((30.0, 20.0), 50.0), ((90.0, 80.0), 10.0)]
)
def test_waiting_for_a_core_is_no_latency(queued: tuple[float, float], expected: float) -> None:
    own = [
        {LATENCY: ([elapsed, lost, 0.0],) * 2} for elapsed, lost in zip((100.0, 95.0), queued, strict=True)
    ]
    assert _pair_test(FIELD, (0, 1), own).times_ns[LATENCY] == ((expected,), (expected,))


def test_what_the_ranks_of_a_part_sent_again_is_counted_together() -> None:
    """Loss on the link of a host spreads over its ranks."""
    _, between = fields(["a"] * 3 + ["b"] * 3)
    own = [{RESENT: ([float(count)],) * 2} for count in (1, 2, 3, 20, 0, 4)]
    assert _pair_test(between, (0, 1), own).times_ns[RESENT] == ((25.0,), (25.0,))


def test_what_one_rank_could_not_observe_is_left_out() -> None:
    first = {BANDWIDTH: ([5.0], [5.0]), RESENT: ([3.0],) * 2}
    assert set(_pair_test(FIELD, (0, 1), [first, {BANDWIDTH: ([5.0], [5.0])}]).times_ns) == {BANDWIDTH}


@pytest.mark.parametrize(
    ("hosts", "backend", "visible", "first"),
    [
        (["a"] * 3, "nccl", "0,1,3", "rank 0 (GPU 0) on a, rank 1 (GPU 1) on a, rank 2 (GPU 3) on a"),
        (["a"] * 2, "nccl", "GPU-8f6d,GPU-1b,2", "rank 0 (GPU-8f6d) on a, rank 1 (GPU-1b) on a"),
        (["a"] * 2, "nccl", "3", "rank 0 on a, rank 1 on a"),  # a launcher shows each rank its own
        (["a"] * 2, "nccl", None, "rank 0 on a, rank 1 on a"),
        (["a"] * 2, "mpi", "0,3", "rank 0 on a, rank 1 on a"),
        (["a", "b"], "nccl", "0,3", "a, b"),
    ],
)
def test_ranks_of_chosen_gpus_are_named_with_them(
    hosts: list[str], backend: str, visible: str | None, first: str
) -> None:
    """Of GPUs 0, 1 and 3 rank 2 has number 3."""
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    named = _with_gpus(fields(hosts)[-1], hosts, backend, environ)
    assert ", ".join(named.names) == first


class Links(WithoutData):
    """A backend, and its only case, whose calls take 1 ms within a host of three ranks and 50 ms between
    hosts. ``samples`` has the calls of each timed sample behind the first look.
    """

    def __init__(self, name: str = "scripted") -> None:
        self.name = name
        self.call_ns = 0
        self.samples: dict[int, list[int]] = defaultdict(list)

    def pair_up(self, pairs: tuple[tuple[int, int], ...], pause_ns: int = 0) -> None:
        del pause_ns
        self.call_ns = 50_000_000 if any(one // 3 != other // 3 for one, other in pairs) else 1_000_000

    def prepare(self, case: object) -> Links:
        del case
        return self

    def run(self, *slot: int) -> None:
        """Nothing is moved."""

    def time(self, lead: int, samples: int, k: int) -> Look:
        del lead
        self.samples[self.call_ns].append(k)
        return Look(np.full(samples, k * self.call_ns, np.int64), np.full(samples, 0, np.int64))

    def close(self) -> None:
        """Nothing was taken."""


class Alone:
    """Rank 0 of a world in which all ranks do what it does."""

    rank = 0

    def __init__(self, size: int) -> None:
        self._size = size

    def barrier(self) -> None:
        """Nobody to wait for."""

    def max(self, values: Any) -> Any:
        return values

    def gather(self, data: bytes) -> list[bytes]:
        return [data] * self._size


def test_a_sample_between_hosts_is_as_long_as_one_within_a_host() -> None:
    inside, between = fields(["a"] * 3 + ["b"] * 3)
    links = Links()
    hunt = Hunt("isolate", 1 << 20, Rules(metrics=(BANDWIDTH,)), samples=2)
    world: Any = Alone(6)
    backend: Any = links
    tester = _Tester(world, hunt, backend, Deadline())
    for number in range(2):
        tester.run(inside, Round(number, Stage.SCREEN, ((0, 1), (3, 4))))
    for number in range(2):
        tester.run(between, Round(number, Stage.SCREEN, ((0, 1),)))
    looks, rounds = [1, 1], 2 * 2 * 2  # each way and sample
    assert links.samples[1_000_000] == looks + [20] * rounds
    assert links.samples[50_000_000] == looks + [1] * rounds


@pytest.mark.parametrize(("kind", "share"), [("pairs", 1.0), ("isolate", 0.1)])
def test_a_matrix_shows_the_mean_as_it_is(monkeypatch: pytest.MonkeyPatch, kind: str, share: float) -> None:
    """Only where it is judged is a wait for a core taken off, however much of it that is."""
    readings = iter(range(0, 10**15, 10**12))
    monkeypatch.setattr("busbw.rank.hunt.rounds.queued_ns", lambda: next(readings))
    world: Any = Alone(2)
    backend: Any = Links("mpi")
    hunt = Hunt(kind, 1 << 20, Rules(metrics=(LATENCY,)))
    found = _Tester(world, hunt, backend, Deadline()).run(FIELD, Round(0, Stage.SCREEN, ((0, 1),)))
    assert found is not None
    assert found.tests[0].times_ns[LATENCY] == ((1_000_000 * share,),) * 2


def test_no_rank_leaves_the_watch_of_a_round_before_the_others() -> None:
    """The third of three parts has nothing to send: once out of the round, it could not say that it waits."""

    class Watch:
        def __init__(self, world: Any) -> None:
            self._world = world

        @contextmanager
        def watch(self, seconds: float, doing: str) -> Iterator[None]:
            yield
            left.append(self._world.calls[-1])

    left: list[str] = []
    (field,) = fields(["a", "b", "c"])

    def live(world: Any) -> None:
        backend = scripted_backend(scripted(lambda n: 1e6), 0.0)
        backend.pair_up = lambda pairs, pause_ns: None
        hunt = Hunt("isolate", 1 << 20, Rules(metrics=(BANDWIDTH,)))
        tester = _Tester(world, hunt, backend, Watch(world))  # type: ignore[arg-type]
        tester.run(field, Round(0, Stage.SCREEN, ((0, 1),)))

    on_ranks(3, live)
    assert left == ["barrier"] * 3
