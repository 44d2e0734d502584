"""What a look costs the nccl world: messages, frames and bytes at rank 0's hub, and what the hub holds.

The ranks are those of benchmarks/control: rank 0 is real but for its sockets, the others are simulated.
"""

from __future__ import annotations

import tracemalloc
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from busbw_testing.programs import program

from busbw.rank.backends.base import Look
from busbw.rank.reduce_samples import across_ranks
from busbw.rank.world import nccl
from busbw.rank.world.nccl import chunk_elements

HEAD_BYTES = 10
# Three times and four flag bits, as int64: worker.across_ranks.
SAMPLE_BYTES = (3 + 4) * 8


@pytest.fixture(scope="module")
def counted() -> ModuleType:
    """The benchmark's own code: tests and table have one source."""
    return program("benchmarks/control/counted.py")


def look(world: Any, samples: int, time: str = "max") -> None:
    """The control of one look, as worker.measure does it."""
    elapsed = np.arange(samples, dtype=np.int64) + 1000
    across = across_ranks(Look(elapsed, elapsed), np.zeros(samples, np.int64), time, world)
    assert (across.headline == elapsed).all()


def traffic(counted: ModuleType, ranks: int, samples: int, time: str = "max") -> tuple[Any, Any]:
    """(received, sent) of a look at rank 0."""
    world, counting = counted.simulated_world(ranks)
    received, sent = counting.received, counting.sent
    look(world, samples, time)
    return counting.received - received, counting.sent - sent


@pytest.mark.parametrize("ranks", [2, 64])
@pytest.mark.parametrize("samples", [8, 254])
def test_a_look_is_one_vector_from_and_to_every_rank(counted: ModuleType, ranks: int, samples: int) -> None:
    received, sent = traffic(counted, ranks, samples)
    assert received == sent
    others = ranks - 1
    assert received.messages == others
    assert received.frames == 2 * others
    assert received.content_bytes == others * (HEAD_BYTES + SAMPLE_BYTES * samples)


def test_a_long_vector_goes_in_calls_that_the_hub_can_hold(
    counted: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks, others, elements = 64, 63, 100_000
    monkeypatch.setattr(nccl, "HUB_BYTES", 1 << 20)
    world, counting = counted.simulated_world(ranks)
    step = chunk_elements(ranks)
    assert 8 * step * ranks <= 1 << 20
    values = np.random.default_rng(1).integers(-(2**60), 2**60, elements)
    received = counting.received
    tracemalloc.start()
    try:
        result = world.max(values)
        most_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (result == values).all()
    arrived = counting.received - received
    assert arrived.messages == others * -(-elements // step)
    assert arrived.content_bytes == others * 8 * elements + HEAD_BYTES * arrived.messages
    # The parts of all ranks and the matrix made from them, and the vector itself a few times over. In one
    # call the parts alone would be 51 MB.
    assert most_bytes < 2 * (1 << 20) + 5 * values.nbytes < ranks * values.nbytes / 6


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (4, 8), (5, 7)])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_chunks_change_no_result(
    counted: ModuleType, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], dtype: type
) -> None:
    """Shapes below, at and above one chunk of 16 numbers, and a multiple of it."""
    ranks = 4
    monkeypatch.setattr(nccl, "HUB_BYTES", 16 * 8 * ranks)
    assert chunk_elements(ranks) == 16
    world, counting = counted.simulated_world(ranks)
    values = (np.arange(np.prod(shape, dtype=int)).reshape(shape) - 7).astype(dtype)
    for result, expected in ((world.max(values), values), (world.sum(values), ranks * values)):
        assert result.shape == shape
        assert result.dtype == dtype
        assert (result == expected).all()
    # Even nothing is one call: a rank with a value where others have none is out of step, and said to be.
    calls = 2 * max(1, -(-values.size // 16))
    start = counting.sent
    world.max(values)
    world.sum(values)
    assert (counting.sent - start).messages == calls * (ranks - 1)
