"""Buffers of one rank in one call: how many elements, whose they are, and where they lie.

Sizes are those of nccl-tests: *size* is the larger of the bytes a rank sends and receives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, IntEnum, StrEnum
from typing import Final

from busbw.model.counts import SEGMENT_ALIGNMENT_BYTES, CountTable, Exchange


class Placement(StrEnum):
    """Where the result lands."""

    OUT_OF_PLACE = "out-of-place"
    IN_PLACE = "in-place"


class InPlace(Enum):
    """How the two buffers overlap when a collective works in place."""

    SAME = "send and receive start at the same address"
    SEND_WITHIN_RECV = "a rank sends its own block of the receive buffer"
    RECV_WITHIN_SEND = "a rank receives into its own block of the send buffer"


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
class Role:
    """The part a process plays in a call. ``rank`` and ``ranks`` count the ``group`` that communicates: the
    world, or one of those that it is split into. ``root`` is not read by collectives that have none,
    ``counts`` only by those of variable sizes (None: even), ``pairs`` of (source, target) only by permute
    (empty: the ring).
    """

    rank: int
    ranks: int
    root: int = 0
    group: int = 0
    counts: CountTable | None = None
    pairs: tuple[tuple[int, int], ...] = ()

    @property
    def is_root(self) -> bool:
        """Whether this rank is the one that gives or gets everything."""
        return self.rank == self.root

    @property
    def target(self) -> int | None:
        """Whom a permute makes this rank send to."""
        if not self.pairs:
            return (self.rank + 1) % self.ranks
        return next((target for source, target in self.pairs if source == self.rank), None)

    @property
    def source(self) -> int | None:
        """Whom a permute makes this rank receive from."""
        if not self.pairs:
            return (self.rank - 1) % self.ranks
        return next((source for source, target in self.pairs if target == self.rank), None)


@dataclass(frozen=True)
class Shape:
    """Element counts of one call on one rank. ``block_count`` is what one rank contributes to, or gets from,
    a buffer that holds a block for every rank; the whole buffer where there are no blocks. ``exchange`` has
    the segments of a call of variable sizes.
    """

    call_count: int  # the count argument of the call
    send_count: int  # elements in the send buffer
    recv_count: int  # elements in the receive buffer
    block_count: int
    algbw_count: int  # elements whose bytes over time are algbw
    exchange: Exchange | None = None

    def size_bytes(self, type_bytes: int) -> int:
        """What nccl-tests prints as size: the larger of send and receive bytes."""
        return max(self.send_count, self.recv_count) * type_bytes


# nccl-tests keeps each rank's share of these a multiple of 16 bytes (AllGatherGetCollByteCount and siblings).
SHARE_ALIGNMENT_BYTES: Final = SEGMENT_ALIGNMENT_BYTES


ShapeOf = Callable[[int, int, int], Shape]
"""From elements that are asked for, ranks, and the bytes of an element."""


def whole(elements: int, ranks: int, type_bytes: int) -> Shape:
    """A buffer in, a buffer out."""
    del ranks, type_bytes
    return Shape(elements, elements, elements, block_count=elements, algbw_count=elements)


def _blocks(*, sent: bool = False, received: bool = False) -> ShapeOf:
    """Equal shares: one for every rank in a buffer, or one alone."""

    def shape(elements: int, ranks: int, type_bytes: int) -> Shape:
        step = SHARE_ALIGNMENT_BYTES // type_bytes
        share = elements // ranks // step * step
        send, recv = (share * (ranks if of_all else 1) for of_all in (sent, received))
        return Shape(share, send, recv, block_count=share, algbw_count=max(send, recv))

    return shape


blocks_received: Final = _blocks(received=True)  # a share in, everybody's shares out
blocks_sent: Final = _blocks(sent=True)  # everybody's shares in, a share out
blocks_exchanged: Final = _blocks(sent=True, received=True)  # a share for everybody in, one of everybody out


def blocks_doubling(elements: int, ranks: int, type_bytes: int) -> Shape:
    """As blocks_received; its algbw leaves the own share out."""
    shape = blocks_received(elements, ranks, type_bytes)
    return replace(shape, algbw_count=shape.block_count * (ranks - 1))


def nothing(elements: int, ranks: int, type_bytes: int) -> Shape:
    """No data."""
    del elements, ranks, type_bytes
    return Shape(0, 0, 0, block_count=0, algbw_count=0)


RegionsOf = Callable[[Shape, Role], tuple[Region, ...]]


def at_root(regions: RegionsOf) -> RegionsOf:
    """The same at the root, and nothing elsewhere."""
    return lambda shape, role: regions(shape, role) if role.is_root else ()


def contribution(shape: Shape, role: Role) -> tuple[Region, ...]:
    """What a rank brings to a reduction."""
    return (Region(Holds.CONTRIBUTION, role.rank, 0, shape.send_count),)


def reduced(shape: Shape, role: Role) -> tuple[Region, ...]:
    """The reduction of everything."""
    del role
    return (Region(Holds.REDUCED, 0, 0, shape.recv_count),)


def own_block_reduced(shape: Shape, role: Role) -> tuple[Region, ...]:
    """A rank's block of the reduction."""
    share = shape.block_count
    return (Region(Holds.REDUCED, 0, 0, share, first_index=role.rank * share),)


def own(shape: Shape, role: Role) -> tuple[Region, ...]:
    """A rank's own data."""
    return (Region(Holds.MOVED, role.rank, 0, shape.send_count),)


def from_root(shape: Shape, role: Role) -> tuple[Region, ...]:
    """The root's data."""
    return (Region(Holds.MOVED, role.root, 0, shape.recv_count),)


def own_block_from_root(shape: Shape, role: Role) -> tuple[Region, ...]:
    """A rank's block of the root's data."""
    share = shape.block_count
    return (Region(Holds.MOVED, role.root, 0, share, first_index=role.rank * share),)


def one_block_per_rank(shape: Shape, role: Role) -> tuple[Region, ...]:
    """All ranks' data in rank order."""
    share = shape.block_count
    return tuple(Region(Holds.MOVED, owner, owner * share, share) for owner in range(role.ranks))


def own_block_from_each(shape: Shape, role: Role) -> tuple[Region, ...]:
    """From every rank, the block that is meant for this one."""
    share = shape.block_count
    return tuple(
        Region(Holds.MOVED, owner, owner * share, share, first_index=role.rank * share)
        for owner in range(role.ranks)
    )


def no_data(shape: Shape, role: Role) -> tuple[Region, ...]:
    """Nothing."""
    del shape, role
    return ()


def own_segments(shape: Shape, role: Role) -> tuple[Region, ...]:
    """A rank's own data, in one segment for every rank."""
    if shape.exchange is None:
        return own(shape, role)
    segments = zip(shape.exchange.send_counts, shape.exchange.send_offsets, strict=True)
    return tuple(
        Region(Holds.MOVED, role.rank, offset, count, first_index=offset)
        for count, offset in segments
        if count
    )


def segment_from_each(shape: Shape, role: Role) -> tuple[Region, ...]:
    """From every rank, the segment that is meant for this one."""
    exchange = shape.exchange
    if exchange is None:
        return own_block_from_each(shape, role)
    return tuple(
        Region(Holds.MOVED, owner, exchange.recv_offsets[owner], count, exchange.source_offsets[owner])
        for owner, count in enumerate(exchange.recv_counts)
        if count
    )


def one_segment_per_rank(shape: Shape, role: Role) -> tuple[Region, ...]:
    """All ranks' data, as much as each has."""
    return one_block_per_rank(shape, role) if shape.exchange is None else segment_from_each(shape, role)


def own_if_paired(shape: Shape, role: Role) -> tuple[Region, ...]:
    """A rank's own data, where it is somebody's source."""
    return own(shape, role) if role.target is not None else ()


def from_source(shape: Shape, role: Role) -> tuple[Region, ...]:
    """The data of the rank that sends to this one."""
    return () if role.source is None else (Region(Holds.MOVED, role.source, 0, shape.recv_count),)
