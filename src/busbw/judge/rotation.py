"""Through how much memory calls rotated, where caches may hold what one of two rotated through.

Calls rotate through the largest buffers of their sweep, so a 2 MiB all_reduce of a sweep to 16 MiB finds its
data in the GPU's cache, and that of a sweep to 8 GiB does not: 14.5 and 17.7 us on 2 x H200
(benchmarks/gpu/README.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from busbw.judge.references.reference import Reference
from busbw.model.record import RunRecord
from busbw.units import format_flag_size, format_size

# Two buffers of this size are more than the caches of GPUs hold (NVIDIA's data sheets: H100, H200 50 MB,
# B200 126 MB).
BEYOND_CACHES: Final = 128 << 20
_ROTATING_TOOLS: Final = ("nccl-tests", "rccl-tests")


def rotated_bytes(records: Sequence[RunRecord]) -> int:
    """Of one buffer of each of these runs, at least the message; 1 where each call was in the same place; 0
    where it is not known, or they are not alike.
    """
    found = set()
    for plan, source in ((record.plan, record.source) for record in records):
        own = any({"rotate", "unique_buffers"} & stream.own.keys() for stream in plan.streams)
        # nccl-tests and rccl-tests rotate too, through the maxBytes of their header (startColl in common.cu).
        if plan.unique_buffers or own or (source is not None and source.tool not in _ROTATING_TOOLS):
            return 0
        found.add(plan.buffer_bytes if plan.rotate else 1)
    return found.pop() if len(found) == 1 else 0


class Nearer(IntEnum):
    """Which of two rotated through less, where caches may hold that and not the other's."""

    NEITHER = 0
    FIRST = 1
    SECOND = 2


def nearer(first: int, second: int, size_bytes: int) -> Nearer:
    """Of two numbers of rotated bytes, for messages of this size; NEITHER where one of them is not known."""
    if not first or not second:
        return Nearer.NEITHER
    first, second = max(first, size_bytes), max(second, size_bytes)
    if first == second or min(first, second) >= BEYOND_CACHES:
        return Nearer.NEITHER
    return Nearer.FIRST if first < second else Nearer.SECOND


def cached(ours: int, reference: Reference, size_bytes: int) -> tuple[str, bool]:
    """What is to be said where caches may hold what one of the two rotated through and not the other's, and
    whether that is the reference; empty where both are alike or it is not known.
    """
    theirs = reference.rotated_bytes(size_bytes)
    near = nearer(ours, theirs, size_bytes)
    if near is Nearer.NEITHER:
        return "", False
    ours, theirs = max(ours, size_bytes), max(theirs, size_bytes)
    why = (
        f"calls of the reference rotated through {format_size(theirs)}, those of the run through"
        f" {format_size(ours)}, and caches hold the smaller: measure with -e {format_flag_size(theirs)}"
    )
    return why, near is Nearer.SECOND
