"""Host memory, for MPI and null backends."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterable
from typing import Final

import numpy as np

from busbw.errors import SiteError
from busbw.machine.host import available_memory_bytes, read_memory
from busbw.machine.native import core
from busbw.rank.backends.buffers import BAND_BYTES, POISON_BYTE, Uint8Array, hint_of_size
from busbw.units import counted, format_approximate_size, format_size

# What a rank needs beside its two buffers: Python, numpy, the MPI library's own buffers, our bands.
RANK_OVERHEAD_BYTES: Final = 100 * 2**20
# What stays free on the host: memory that others take meanwhile, and that nobody can give back (what is in
# shared memory), is not in the kernel's estimate. The kernel kills the ranks where it is used up.
RESERVED_SHARE: Final = 0.1
# MPI libraries reduce in a copy of the message, beside a rank's two buffers.
BUFFERS, REDUCING_BUFFERS = 2, 3


class HostMemory:
    """Anonymous pages of this process, page aligned and touched at once."""

    alignment_bytes = max(mmap.PAGESIZE, BAND_BYTES)

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
        ctypes.memset(address, byte, size_bytes)

    def read(self, address: int, size_bytes: int) -> Uint8Array:
        return np.frombuffer(ctypes.string_at(address, size_bytes), np.uint8)

    def write(self, address: int, data: Uint8Array) -> None:
        ctypes.memmove(address, data.ctypes.data, data.nbytes)

    def fill(self, address: int, pattern: core.Pattern, *regions: core.Region) -> None:
        for region in regions:
            core.fill(address, pattern, region)

    def check(self, address: int, pattern: core.Pattern, regions: Iterable[core.Region]) -> core.CheckResult:
        result = core.new_check_result()
        for region in regions:
            core.check(address, pattern, region, result)
        return result


def largest_buffer_bytes(available_bytes: int, local_ranks: int, buffers: int = REDUCING_BUFFERS) -> int:
    """The largest of so many buffers that each rank of a host can have beside its process and the reserve."""
    reserve_bytes = int(available_bytes * RESERVED_SHARE)
    return max(0, ((available_bytes - reserve_bytes) // local_ranks - RANK_OVERHEAD_BYTES) // buffers)


def require_host_memory(
    buffer_bytes: int, local_ranks: int, *, reduces: bool = True, has_gaps: bool = False
) -> None:
    """Raise SiteError, before anything is allocated, where this host's ranks cannot all have their buffers.
    ``reduces``: MPI takes one more.

    Says the largest size that fits. Where memory grows on demand and no limit is known, nothing is refused.
    """
    available = available_memory_bytes(read_memory())
    buffers = REDUCING_BUFFERS if reduces else BUFFERS
    if available.size_bytes is None:
        return
    fits_bytes = largest_buffer_bytes(available.size_bytes, local_ranks, buffers)
    if buffer_bytes <= fits_bytes:
        return
    needed_bytes = local_ranks * (buffers * buffer_bytes + RANK_OVERHEAD_BYTES)
    beside = " and MPI's copy" if reduces else ""
    raise SiteError(
        f"too little memory: {counted(local_ranks, 'rank')} on this host with two buffers of"
        f" {format_size(buffer_bytes)}{beside} need {format_approximate_size(needed_bytes)}, and"
        f" {format_approximate_size(available.size_bytes)} are available ({available.reason}), of which a"
        " tenth stays free",
        hint=hint_of_size(fits_bytes, has_gaps=has_gaps),
    )
