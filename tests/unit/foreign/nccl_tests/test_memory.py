"""What nccl-tests lowers -e to. Its rule is worked out by hand; no GPU is needed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from busbw.foreign.nccl_tests import settings as nccl_tests_settings
from busbw.foreign.nccl_tests.flags import read
from busbw.foreign.nccl_tests.settings import largest_on_gpu, largest_size, lowered
from busbw.machine.host import AvailableMemory
from busbw.rank.backends.host_memory import RANK_OVERHEAD_BYTES

GIB = 1 << 30


@pytest.mark.parametrize(
    ("memory_gib", "check", "largest"),
    [
        (80, 1, 25 * GIB),  # 80 - 4 - 1 = 75, three buffers
        (80, 0, 75 * GIB // 2),
        (16, 0, 7 * GIB),  # 16 - 1 - 1
        (141, 1, 136 * GIB // 3),  # 4 at most
        (1, 1, 0),
    ],
)
def test_the_rule_of_the_original(memory_gib: int, check: int, largest: int) -> None:
    assert largest_on_gpu(memory_gib * GIB, check) == largest


def test_the_smallest_gpu_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = [SimpleNamespace(memory_bytes=size * GIB) for size in (141, 80)]
    monkeypatch.setattr(nccl_tests_settings, "read_gpus", lambda: SimpleNamespace(gpus=gpus))
    assert largest_size("nccl", 1, None) == 25 * GIB
    gpus.clear()
    assert largest_size("nccl", 1, None) is None


@pytest.mark.parametrize(
    ("available", "ranks", "is_known"), [(10 * GIB, 2, True), (None, 2, False), (10 * GIB, None, False)]
)
def test_ranks_of_a_host_share_its_memory(
    available: int | None, ranks: int | None, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = AvailableMemory(available, "")
    monkeypatch.setattr(nccl_tests_settings, "available_memory_bytes", lambda *_: memory)
    largest = largest_size("mpi", 1, ranks)
    assert largest == ((9 * GIB // 2 - RANK_OVERHEAD_BYTES) // 3 if is_known else None)
    assert largest_size("null", 1, 2) is None


def test_only_what_does_not_fit_is_lowered() -> None:
    line = read("all_reduce_perf", ["-b", "8", "-e", "1M"])
    assert lowered(line, 1 << 20) is line
    assert lowered(line, None) is line
    assert lowered(line, 0) is line  # nothing fits: the run says so
    smaller = lowered(line, 1000).options
    assert (smaller.minbytes, smaller.maxbytes) == (8, 1000)
    below = lowered(read("all_reduce_perf", ["-b", "1M", "-e", "2M"]), 1000).options
    assert (below.minbytes, below.maxbytes) == (1000, 1000)
