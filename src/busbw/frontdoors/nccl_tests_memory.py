"""The largest size that fits: nccl-tests lowers -e to it before it allocates, and says so in its table."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from busbw.backends.host_memory import largest_buffer_bytes
from busbw.frontdoors.nccl_tests_flags import Line
from busbw.probes.gpus import read_gpus
from busbw.probes.host import available_memory_bytes, read_memory

_GIB: Final = 1 << 30
# Of a host's memory: other processes, and ranks that start, take some before the buffers are allocated.
_HOST_SHARE: Final = 0.9


def largest_size(backend: str, check: int, ranks_here: int | None) -> int | None:
    """Bytes that -e may have at most on this host with ``ranks_here`` ranks; None where nobody knows."""
    if backend == "nccl":
        gpus = read_gpus().gpus
        return of_gpu(min(gpu.memory_bytes for gpu in gpus), check) if gpus else None
    if backend != "mpi" or not ranks_here:
        return None
    available = available_memory_bytes(read_memory()).size_bytes
    return None if available is None else largest_buffer_bytes(int(available * _HOST_SHARE), ranks_here)


def of_gpu(memory_bytes: int, check: int) -> int:
    """nccl-tests 2.19.6's rule for the smallest GPU (src/common.cu, run): less 1 GiB for each 16 GiB that are
    installed, 4 at most, and 1 more, what is left is for two buffers, with -c for three.

    The check here needs no third one, but the same line measures the same sizes.
    """
    reserve = min(-(-memory_bytes // (16 * _GIB)), 4) * _GIB
    return max(0, memory_bytes - reserve - _GIB) // (3 if check else 2)


def lowered(line: Line, largest: int | None) -> Line:
    """The line with sizes up to ``largest`` bytes. Where nothing fits it stays, and the run says why."""
    options = line.options
    if not largest or options.maxbytes <= largest:
        return line
    smallest = min(options.minbytes, largest)
    return replace(line, options=replace(options, minbytes=smallest, maxbytes=largest))
