from __future__ import annotations

import ctypes

import pytest

from busbw.errors import SiteError
from busbw.machine.host import AvailableMemory
from busbw.rank.backends import host_memory
from busbw.rank.backends.host_memory import (
    RANK_OVERHEAD_BYTES,
    HostMemory,
    largest_buffer_bytes,
    require_host_memory,
)

GIB = 2**30


@pytest.fixture
def available(monkeypatch: pytest.MonkeyPatch) -> object:
    def set_to(size_bytes: int | None) -> None:
        memory = AvailableMemory(size_bytes, "cgroup limit")
        monkeypatch.setattr(host_memory, "available_memory_bytes", lambda *_: memory)

    return set_to


def test_new_pages_are_written_and_aligned() -> None:
    memory = HostMemory()
    address = memory.allocate(8192)
    assert address % 4096 == 0
    assert ctypes.string_at(address, 8192) == b"\xff" * 8192
    memory.overwrite(address, 16, 0)
    assert ctypes.string_at(address, 17) == bytes(16) + b"\xff"
    memory.release(address)


def test_more_than_there_is_is_refused_with_a_hint() -> None:
    with pytest.raises(SiteError, match="cannot allocate") as refused:
        HostMemory().allocate(2**62)
    assert "-e" in refused.value.hint


def test_buffers_that_do_not_fit_are_refused_with_the_size_that_does(available: object) -> None:
    """A tenth stays free, and reductions need a third buffer."""
    available(100 * GIB)  # type: ignore[operator]
    largest = (90 * GIB // 2 - RANK_OVERHEAD_BYTES) // 3
    assert largest_buffer_bytes(100 * GIB, 2) == largest
    require_host_memory(largest, 2)
    require_host_memory(largest * 3 // 2, 2, reduces=False)
    with pytest.raises(
        SiteError, match=r"2 ranks on this host with two buffers of .* \(cgroup limit\), of wh"
    ):
        require_host_memory(largest + 1, 2)
    for has_gaps, hint in ((False, f"is -e {largest // 2**20}M"), (True, "lower the displacements")):
        with pytest.raises(SiteError) as refused:
            require_host_memory(largest + 1, 2, has_gaps=has_gaps)
        assert hint in refused.value.hint


def test_memory_that_nobody_knows_is_not_refused(available: object) -> None:
    available(None)  # type: ignore[operator]
    require_host_memory(2**50, 8)
