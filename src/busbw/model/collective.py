"""The catalogue: one row per collective says everything that differs between collectives.

Sizes and factors follow nccl-tests, whose users these numbers must make sense to: *size* is the larger of
the bytes a rank sends and receives, algbw = size / time, busbw = algbw x factor. (The bandwidth table of the
AWS nccl-tests README omits the rank count for all_gather; the sources of nccl-tests multiply by it, and so
do we.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

from busbw.errors import UsageError


class Placement(StrEnum):
    """Where the result lands."""

    OUT_OF_PLACE = "out-of-place"
    IN_PLACE = "in-place"


class Holds(IntEnum):
    """What the elements of a region hold; numbered as ``BusbwRegion.kind``."""

    CONTRIBUTION = 0  # of ``rank``, to a reduction
    REDUCED = 1  # the reduced value
    MOVED = 2  # data that ``rank`` owned at the start


@dataclass(frozen=True)
class Region:
    """``count`` elements at ``offset`` of a buffer, which hold pattern elements from ``first_index`` on."""

    holds: Holds
    rank: int
    offset: int
    count: int
    first_index: int = 0


@dataclass(frozen=True)
class Shape:
    """Element counts of one call on one rank."""

    call_count: int  # the count argument of the call
    send_count: int  # elements in the send buffer
    recv_count: int  # elements in the receive buffer
    in_place_stride: int = 0  # rank r's own data start at r * stride of the receive buffer when in place

    def size_bytes(self, type_bytes: int) -> int:
        """What nccl-tests prints as size: the larger of send and receive bytes."""
        return max(self.send_count, self.recv_count) * type_bytes


@dataclass(frozen=True)
class Collective:
    """One catalogue row.

    ``shape(elements, ranks, type_bytes)`` turns requested elements into counts, with the rounding of
    nccl-tests; ``sends``/``receives(shape, rank, ranks)`` say what a rank's buffers hold before and after,
    for filling and checking; ``in_place_on`` names the backends where aliased buffers are defined.
    """

    name: str
    number: int
    summary: str
    reducing: bool
    rooted: bool
    agreeing: bool  # every rank must end with the same receive buffer
    in_place_on: frozenset[str]
    busbw_factor: Callable[[int], float]
    shape: Callable[[int, int, int], Shape]
    sends: Callable[[Shape, int, int], tuple[Region, ...]]
    receives: Callable[[Shape, int, int], tuple[Region, ...]]


def _whole(elements: int, ranks: int, type_bytes: int) -> Shape:
    del ranks, type_bytes
    return Shape(call_count=elements, send_count=elements, recv_count=elements)


# nccl-tests keeps each rank's share of these a multiple of 16 bytes (AllGatherGetCollByteCount and siblings).
SHARE_ALIGNMENT_BYTES: Final = 16


def _gathered(elements: int, ranks: int, type_bytes: int) -> Shape:
    step = SHARE_ALIGNMENT_BYTES // type_bytes
    share = elements // ranks // step * step
    return Shape(call_count=share, send_count=share, recv_count=share * ranks, in_place_stride=share)


def _contribution(shape: Shape, rank: int, ranks: int) -> tuple[Region, ...]:
    del ranks
    return (Region(Holds.CONTRIBUTION, rank, 0, shape.send_count),)


def _reduced(shape: Shape, rank: int, ranks: int) -> tuple[Region, ...]:
    del rank, ranks
    return (Region(Holds.REDUCED, 0, 0, shape.recv_count),)


def _own(shape: Shape, rank: int, ranks: int) -> tuple[Region, ...]:
    del ranks
    return (Region(Holds.MOVED, rank, 0, shape.send_count),)


def _one_block_per_rank(shape: Shape, rank: int, ranks: int) -> tuple[Region, ...]:
    del rank
    share = shape.call_count
    return tuple(Region(Holds.MOVED, owner, owner * share, share) for owner in range(ranks))


def _from_previous(shape: Shape, rank: int, ranks: int) -> tuple[Region, ...]:
    return (Region(Holds.MOVED, (rank - 1) % ranks, 0, shape.recv_count),)


COLLECTIVES: Final = (
    Collective(
        name="all_reduce",
        number=0,
        summary="every rank gets the reduction of all ranks' data",
        reducing=True,
        rooted=False,
        agreeing=True,
        in_place_on=frozenset({"mpi", "nccl", "null"}),
        busbw_factor=lambda ranks: 2 * (ranks - 1) / ranks,
        shape=_whole,
        sends=_contribution,
        receives=_reduced,
    ),
    Collective(
        name="all_gather",
        number=1,
        summary="every rank gets all ranks' data, in rank order",
        reducing=False,
        rooted=False,
        agreeing=True,
        in_place_on=frozenset({"mpi", "nccl", "null"}),
        busbw_factor=lambda ranks: (ranks - 1) / ranks,
        shape=_gathered,
        sends=_own,
        receives=_one_block_per_rank,
    ),
    Collective(
        name="sendrecv",
        number=2,
        summary="a ring: every rank sends to the next and receives from the previous",
        reducing=False,
        rooted=False,
        agreeing=False,
        # Sending from the buffer being received into is undefined in MPI and NCCL; nccl-tests times it
        # without checking (its #wrong is N/A), we do not time what is undefined.
        in_place_on=frozenset(),
        busbw_factor=lambda ranks: 1.0,
        shape=_whole,
        sends=_own,
        receives=_from_previous,
    ),
)


def collective(name: str) -> Collective:
    """Look a collective up by name. Raises UsageError naming all of them."""
    for row in COLLECTIVES:
        if name == row.name:
            return row
    known = ", ".join(row.name for row in COLLECTIVES)
    raise UsageError(f"unknown operation {name!r}", hint=f"use one of: {known}")
