"""Host memory, for MPI and null backends."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterable
from typing import Final

import numpy as np

from busbw._native import core
from busbw.backends.buffers import POISON_BYTE, Uint8Array, hint_of_size
from busbw.errors import SiteError
from busbw.probes.host import available_memory_bytes, read_memory
from busbw.units import format_approximate_size, format_size

# What a rank needs beside its two buffers: Python, numpy, the MPI library's own buffers.
RANK_OVERHEAD_BYTES: Final = 100 * 2**20


class HostMemory:
    """Anonymous pages of this process, page aligned and touched at once."""

    def __init__(self) -> None:
        self._maps: dict[int, mmap.mmap] = {}

    def allocate(self, size_bytes: int) -> int:
        """New pages, written once so that they exist. Raises SiteError when there are none."""
        try:
            pages = mmap.mmap(-1, size_bytes)
        except (OSError, OverflowError) as error:
            raise SiteError(
                f"cannot allocate {format_size(size_bytes)} of host memory: {error}",
                hint="lower the largest size (-e) or the number of ranks on this host",
            ) from error
        address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        self._maps[address] = pages
        self.overwrite(address, size_bytes)
        return address

    def release(self, address: int) -> None:
        """Forget the pages; they go when the last view of them does."""
        self._maps.pop(address)

    def overwrite(self, address: int, size_bytes: int, byte: int = POISON_BYTE) -> None:
        """Set every byte, by default to one that no check expects."""
        ctypes.memset(address, byte, size_bytes)

    def read(self, address: int, size_bytes: int) -> Uint8Array:
        """See Memory."""
        return np.frombuffer(ctypes.string_at(address, size_bytes), np.uint8)

    def write(self, address: int, data: Uint8Array) -> None:
        """See Memory."""
        ctypes.memmove(address, data.ctypes.data, data.nbytes)

    def fill(self, address: int, pattern: core.Pattern, region: core.Region) -> None:
        """Write a region."""
        core.fill(address, pattern, region)

    def check(self, address: int, pattern: core.Pattern, regions: Iterable[core.Region]) -> core.CheckResult:
        """Compare regions."""
        result = core.new_check_result()
        for region in regions:
            core.check(address, pattern, region, result)
        return result


def largest_buffer_bytes(available_bytes: int, local_ranks: int) -> int:
    """The largest buffers of which every rank of a host can have two, and its own process besides."""
    return max(0, (available_bytes // local_ranks - RANK_OVERHEAD_BYTES) // 2)


def require_host_memory(buffer_bytes: int, local_ranks: int, *, has_gaps: bool = False) -> None:
    """Raise SiteError, before anything is allocated, where this host's ranks cannot all have their buffers.

    Says the largest size that fits. Where memory grows on demand and no limit is known, nothing is refused.
    """
    available = available_memory_bytes(read_memory())
    needed = local_ranks * (2 * buffer_bytes + RANK_OVERHEAD_BYTES)
    if available.size_bytes is None or needed <= available.size_bytes:
        return
    fits = largest_buffer_bytes(available.size_bytes, local_ranks)
    raise SiteError(
        f"too little memory: {local_ranks} ranks on this host with two buffers of {format_size(buffer_bytes)}"
        f" need {format_approximate_size(needed)}, available are"
        f" {format_approximate_size(available.size_bytes)}"
        f" ({available.reason})",
        hint=hint_of_size(fits, has_gaps=has_gaps),
    )
