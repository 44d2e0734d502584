"""Which ranks a run's own times speak against."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from busbw.analysis.late import LateRank, late_ranks
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


def own_times(base_ns: list[float]) -> np.ndarray:
    rng = np.random.default_rng(5)
    return np.rint(np.array(base_ns)[:, None] * rng.normal(1, 0.01, (len(base_ns), 200))).astype(np.int64)


def test_who_came_last_in_single_calls(late: Callable[..., Late]) -> None:
    found = late(single_calls([0.0, 0.0, 300_000.0, 0.0]), "all_reduce", "latency")
    assert found is not None
    assert [(each.rank, each.cases, each.told) for each in found] == [(2, 1, 1)]
    assert found[0].host


def test_nobody_in_particular(late: Callable[..., Late]) -> None:
    assert late(single_calls([0.0, 200_000.0, 0.0, 200_000.0]), "all_reduce", "latency") == ()
    assert late(own_times([100_000.0] * 8), "sendrecv", "throughput") == ()


def test_who_took_longer_where_ranks_wait_for_neighbours(late: Callable[..., Late]) -> None:
    found = late(own_times([1e5, 1e5, 1.5e5, 1e5, 1e5, 1e5, 1e5, 1e5]), "sendrecv", "throughput")
    assert found is not None
    assert [each.rank for each in found] == [2]


def test_half_of_the_ranks_are_not_late(late: Callable[..., Late]) -> None:
    assert late(own_times([1e5, 1.5e5, 1e5, 1.5e5]), "sendrecv", "throughput") == ()


@pytest.mark.parametrize(
    ("operation", "mode"),
    [("all_reduce", "throughput"), ("broadcast", "latency"), ("alltoallv", "latency")],
)
def test_times_that_do_not_tell(late: Callable[..., Late], operation: str, mode: str) -> None:
    """In step, a late rank makes all samples long; of others, ranks have different parts or counts."""
    assert late(own_times([1e5, 1e5, 3e5, 1e5]), operation, mode) is None
