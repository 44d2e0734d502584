"""Runs of many ranks: how the record grows, what rank 0 holds, and how much control a case needs.

The ranks are those of benchmarks/control/storage.py: a simulated world makes what they would send.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from busbw_testing.programs import program
from busbw_testing.ranks import conditions, on_ranks, scripted

from busbw.model.plan import Limits
from busbw.model.sample import DIGEST_DTYPE, MAX_OVER_RANKS, MIN_OVER_RANKS, SAMPLE_DTYPE
from busbw.rank.measure import measure, measure_again
from busbw.rank.retain import SLOWEST_RANKS, retain
from busbw.record.folder import DIGESTS_FILE, SAMPLES_FILE, create
from busbw.record.parquet import compact
from busbw.record.read import read_digests, read_record, read_samples

SAMPLES = 200
# Beyond 16 ranks: maximum, minimum and the slowest ranks.
SERIES = 2 + SLOWEST_RANKS


@pytest.fixture(scope="module")
def storage() -> ModuleType:
    """The benchmark's own code: tests and table have one source."""
    return program("benchmarks/control/storage.py")


def traced(work: Callable[..., Any], *arguments: Any) -> tuple[Any, int]:
    """The result, and the most bytes that were allocated at once on the way to it."""
    tracemalloc.start()
    try:
        return work(*arguments), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_record_of_a_case_is_six_series_and_64_bytes_a_rank(storage: ModuleType, tmp_path: Path) -> None:
    ranks, cases = 200, 6
    folder = create(tmp_path, "run")
    storage.write_run(folder, ranks, cases, SAMPLES)
    assert (folder / SAMPLES_FILE).stat().st_size == cases * SERIES * SAMPLES * SAMPLE_DTYPE.itemsize
    assert (folder / DIGESTS_FILE).stat().st_size == cases * ranks * 64
    samples, digests = read_samples(folder), read_digests(folder)
    assert len(samples[samples["case"] == 3]) == SERIES * SAMPLES
    assert {MAX_OVER_RANKS, MIN_OVER_RANKS} < set(samples["rank"].tolist())
    assert digests[digests["case"] == 3]["rank"].tolist() == list(range(ranks))
    record = read_record(folder)
    assert record.world is not None
    assert [rank.rank for rank in record.world.ranks] == list(range(ranks))
    assert len(record.finished) == cases
    pytest.importorskip("polars")
    assert compact(folder)
    assert (read_samples(folder) == samples).all()
    assert (read_digests(folder) == digests).all()


@pytest.mark.parametrize("ranks", [50, 400])
def test_rank_0_holds_one_case_whatever_the_number_of_ranks(storage: ModuleType, ranks: int) -> None:
    """Bytes of the kept rows, a digest of every rank, and what Python needs for a list of parts."""
    world, samples = storage.ManyRanks(ranks), storage.sampled(SAMPLES, 1)
    retain(0, samples, world)  # what is imported or cached on first use
    kept, most_bytes = traced(retain, 0, samples, world)
    rows_bytes = SERIES * SAMPLES * SAMPLE_DTYPE.itemsize
    assert kept.samples.nbytes == rows_bytes
    assert kept.digests.nbytes == ranks * DIGEST_DTYPE.itemsize
    # The rows once as parts, once joined, once as one table; of every rank two parts, joined twice.
    assert most_bytes < 3.5 * rows_bytes + ranks * (4 * DIGEST_DTYPE.itemsize + 200) + 20_000
    # All samples of all ranks would be far more.
    assert ranks < 100 or most_bytes < ranks * SAMPLES * SAMPLE_DTYPE.itemsize / 4


def test_describing_the_world_takes_a_few_hundred_bytes_a_rank(storage: ModuleType) -> None:
    world = storage.ManyRanks(400)
    backend = storage.NullBackend()
    backend.identity = storage.IDENTITY
    storage.describe(world, backend)
    told_bytes = world.gathered_bytes / world.size
    assert told_bytes < 1000
    info, most_bytes = traced(storage.describe, world, backend)
    assert len({rank.device_uuid for rank in info.ranks}) == 400
    # The texts, and as values of Python about four times as much.
    assert most_bytes < 6 * world.gathered_bytes


def test_each_look_and_each_round_of_the_warm_up_is_one_reduction() -> None:
    def live(world: Any) -> tuple[list[str], int, int, int]:
        case = scripted(lambda call: 50_000.0 * (1 + 0.2 * (call % 7)))
        limits = Limits(max_samples=100)
        given = conditions(world, limits=limits)
        samples = measure(case, given, limits)
        first, rounds = len(case.looks), len(case.warm_up)
        measure_again(samples, case, given, limits)
        return world.calls, rounds, first, len(case.looks) - first

    for calls, rounds, first, second in on_ranks(3, live):
        assert first >= 3
        assert calls == ["max"] * (rounds + first + second)
