"""Which ranks a run's own times speak against."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from busbw.analysis.late import LateRank, late_ranks, of_ring
from busbw.analysis.ranks import Order, RankTable, RankTimes
from busbw.model.record import RunRecord

Rows = Callable[..., np.ndarray]
MakeRecord = Callable[..., RunRecord]
Late = tuple[LateRank, ...] | None


@pytest.fixture
def late(make_record: MakeRecord, sample_rows: Rows, digest_rows: Rows) -> Callable[..., Late]:
    def of(own_ns: np.ndarray, operation: str, mode: str) -> Late:
        record = make_record(len(own_ns), (operation,), mode)
        return late_ranks(record, sample_rows(own_ns, k=1), digest_rows(own_ns, k=1))

    return of


def single_calls(late_ns: list[float]) -> np.ndarray:
    """own_ns[rank, sample] of calls that none leaves before the last one has come."""
    rng = np.random.default_rng(5)
    arrival = rng.normal(0, 1_000, (len(late_ns), 200)) + np.array(late_ns)[:, None]
    return np.rint(arrival.max(axis=0) + 20_000 - arrival).astype(np.int64)


def ring(ranks: int, slow: int, beside: float = 1.5) -> np.ndarray:
    """own_ns[rank, sample] of single steps of a ring: long for the slow rank, and those beside it."""
    rng = np.random.default_rng(5)
    longer = np.ones(ranks)
    longer[[(slow - 1) % ranks, slow, (slow + 1) % ranks]] = (beside, 1.01 * beside, beside)
    return np.rint(1e5 * longer[:, None] * rng.normal(1, 0.01, (ranks, 200))).astype(np.int64)


def test_who_came_last_in_single_calls(late: Callable[..., Late]) -> None:
    found = late(single_calls([0.0, 0.0, 300_000.0, 0.0]), "all_reduce", "latency")
    assert found is not None
    assert [(each.rank, each.cases, each.told) for each in found] == [(2, 1, 1)]
    assert found[0].host


def test_nobody_in_particular(late: Callable[..., Late]) -> None:
    assert late(single_calls([0.0, 200_000.0, 0.0, 200_000.0]), "all_reduce", "latency") == ()
    assert late(ring(8, 2, beside=1.0), "sendrecv", "latency") == ()


@pytest.mark.parametrize("slow", [0, 2, 11])
def test_who_took_longer_in_a_ring(late: Callable[..., Late], slow: int) -> None:
    found = late(ring(12, slow), "sendrecv", "latency")
    assert found is not None
    assert found[0].rank == slow
    assert {each.rank for each in found} == {(slow - 1) % 12, slow, (slow + 1) % 12}


def test_steps_between_hosts_are_not_held_against_those_within() -> None:
    """Four ranks on each of eight hosts: every first and last rank has a step between hosts."""
    hosts = [f"h{rank // 4}" for rank in range(32)]
    times = [8e5 if rank % 4 in (0, 3) else 1e5 for rank in range(32)]
    times[19] = times[20] = 12e5  # the step from h4 to h5
    rows = tuple(
        RankTimes(rank, host, rank % 4, "", 200, ns, None, ns, None)
        for rank, (host, ns) in enumerate(zip(hosts, times, strict=True))
    )
    table = RankTable(0, Order.NEIGHBOURS, 1, 32, 32, rows)
    assert dict(of_ring(table) or {}) == pytest.approx({19: 0.5, 20: 0.5})


# Milliseconds of 2 MiB between six hosts of two ranks in network namespaces, the fourth of which sent at half
# the rate of the others: what a rank sends to another host fits the kernel's buffers.
BUFFERED_MS = [108, 1, 98, 24, 101, 1, 95, 1, 191, 1, 104, 1]


def test_who_only_hands_over_is_alike_to_those_who_do(late: Callable[..., Late]) -> None:
    """The slow host's own steps are short: it is doubted because the next one's, alone, are long."""
    found = late(np.array(BUFFERED_MS)[:, None] * np.full((1, 5), 1_000_000), "sendrecv", "latency")
    assert found is not None
    assert [(each.rank, each.host, each.sends_to) for each in found[:2]] == [
        (7, "node3", 8),
        (8, "node4", None),
    ]
    assert {each.rank for each in found[2:]} <= {2, 3}  # rank 3 had lost its core


def steps(sizes: list[int], times: list[float]) -> RankTable:
    """A ring over hosts of so many ranks, in order, and what each rank's step took."""
    hosts = [f"h{number}" for number, size in enumerate(sizes) for _ in range(size)]
    rows = tuple(
        RankTimes(rank, host, 0, "", 200, ns, None, ns, None)
        for rank, (host, ns) in enumerate(zip(hosts, times, strict=True))
    )
    return RankTable(0, Order.NEIGHBOURS, 1, len(rows), len(rows), rows)


def test_hosts_of_one_rank_are_held_against_others_that_receive() -> None:
    """h1, which has one rank, is slow both ways: too few have one rank to be compared among themselves."""
    found = of_ring(steps([1, 1, 1, 2, 2, 2, 2], [2e5, 2e5, 2e5, *[1e5] * 8]))
    assert found is not None
    assert found.keys() == {0, 1, 2}


@pytest.mark.parametrize(
    ("sizes", "times"),
    [
        ([1, 1, 2, 2, 2, 2], [2e5, 2e5, *[1e5] * 8]),  # too few to be compared with
        ([2] * 6, [2e5, 1e3, 2e5, 1e3, 2e5, 1e3, 2e5, 1e3, 1e5, 1e3, 1e5, 1e3]),  # two of six are slow
        ([1] * 8, [2e5, 2e5, 2e5, 1e5, 2e5, 2e5, 2e5, 1e5]),  # ranks 1 and 5 share a slow NIC
    ],
)
def test_where_not_all_could_be_compared_it_is_not_said_that_nobody_is_late(
    sizes: list[int], times: list[float]
) -> None:
    assert of_ring(steps(sizes, times)) is None


def test_a_rank_is_late_in_so_many_cases_as_it_was(
    make_record: MakeRecord, sample_rows: Rows, digest_rows: Rows
) -> None:
    """Small steps fit buffers: the slow host's last rank hands them over at once. Large ones do not."""
    small = np.full((12, 5), 100_000_000) * np.array([1, 0.01] * 6)[:, None]
    large = np.full((12, 5), 100_000_000)
    small[8] *= 1.9
    large[[7, 8]] = 190_000_000
    record = make_record(12, ("sendrecv",), "latency")
    own = [each.astype(np.int64) for each in (small, large)]
    rows = [np.concatenate([make(each, k=1, case=case) for case, each in enumerate(own)])
            for make in (sample_rows, digest_rows)]  # fmt: skip
    found = late_ranks(record, *rows) or ()
    assert {(each.rank, each.cases, each.told, each.sends_to) for each in found} == {
        (8, 2, 2, None),
        (7, 1, 2, None),
    }


def test_too_few_steps_between_hosts_do_not_tell() -> None:
    """Eight ranks on each of three hosts: six have a step between hosts; which is slow is open."""
    rows = tuple(
        RankTimes(rank, f"h{rank // 8}", rank % 8, "", 200, 1e5, None, 1e5, None) for rank in range(24)
    )
    assert of_ring(RankTable(0, Order.NEIGHBOURS, 1, 24, 24, rows)) is None


def test_few_ranks_of_a_ring_do_not_tell(late: Callable[..., Late]) -> None:
    """Three of six are longer for one slow rank."""
    assert late(ring(6, 2), "sendrecv", "latency") is None


@pytest.mark.parametrize(
    ("operation", "mode"),
    [
        ("all_reduce", "throughput"),
        ("sendrecv", "throughput"),
        ("broadcast", "latency"),
        ("alltoallv", "latency"),
    ],
)
def test_times_that_do_not_tell(late: Callable[..., Late], operation: str, mode: str) -> None:
    """Back to back a late rank makes all samples long; of others, ranks have different parts or counts."""
    assert late(ring(8, 2), operation, mode) is None
