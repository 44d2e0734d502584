"""The catalogue: one row per collective says all that differs between them but the calls: these are in
``native/*_calls.cpp`` and, of MPI, in ``rank/backends/mpi_handles.py``.

Sizes and factors follow nccl-tests, whose users these numbers must make sense to: *size* is the larger of
the bytes a rank sends and receives, algbw = size / time, busbw = algbw x factor. (The bandwidth table of the
AWS nccl-tests README omits the rank count for all_gather; the sources of nccl-tests multiply by it, and so
do we. Hypercube alone has an algbw of other bytes than its size, as there.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from busbw.errors import UnknownWord
from busbw.model import counts, layout
from busbw.model.counts import CountTable, Exchange
from busbw.model.datatype import DataType
from busbw.model.layout import Holds, InPlace, Placement, Region, RegionsOf, Role, Shape, ShapeOf

__all__ = [
    "COLLECTIVES",
    "VARIABLE",
    "Collective",
    "Holds",
    "InPlace",
    "Placement",
    "Region",
    "Role",
    "Shape",
    "collective",
]


@dataclass(frozen=True)
class Variable:
    """How a call of variable sizes reads a table of counts: one rank's ``part(table, elements, type_bytes,
    rank)``, and the elements of the busiest rank, ``busiest(table, elements, type_bytes)``.
    """

    part: Callable[[CountTable, int, int, int], Exchange]
    busiest: Callable[[CountTable, int, int], int]
    gathered: bool  # every rank sends one segment, to everybody


@dataclass(frozen=True)
class Collective:
    """One catalogue row.

    ``shape(elements, ranks, type_bytes)`` turns requested elements into counts, with the rounding of
    nccl-tests; ``sends``/``receives(shape, role)`` say what a rank's buffers hold before and after, for
    filling and checking. ``in_place`` says for each backend that has it how the buffers overlap; a backend in
    ``one_buffer_on`` has nothing else, as its call takes a single buffer. ``synchronising``: no rank can
    leave before the last one has entered, so the late rank shows the shortest time. ``refuses(ranks)`` says
    why a number of ranks cannot take part; empty where it can.
    """

    name: str
    number: int
    summary: str
    shape: ShapeOf
    sends: RegionsOf
    receives: RegionsOf
    busbw_factor: Callable[[int], float] = lambda ranks: 1.0
    reducing: bool = False
    rooted: bool = False
    synchronising: bool = False
    agreeing: bool = False  # every rank must end with the same receive buffer
    in_place: Mapping[str, InPlace] = field(default_factory=dict)
    one_buffer_on: frozenset[str] = frozenset()
    sized: bool = True  # False: moves no data, so a sweep has one case
    refuses: Callable[[int], str] = lambda ranks: ""
    variable: Variable | None = None  # where counts differ between ranks

    def table(self, role: Role) -> CountTable:
        """The counts of a call of variable sizes."""
        gathered = self.variable is not None and self.variable.gathered
        return role.counts or counts.even_table(role.ranks, gathered=gathered)

    def shape_for(self, elements: int, role: Role, type_bytes: int) -> Shape:
        """As ``shape``, for one rank: with its own segments where they differ between ranks."""
        if self.variable is None:
            return self.shape(elements, role.ranks, type_bytes)
        table = self.table(role)
        part = self.variable.part(table, elements, type_bytes, role.rank)
        busiest = self.variable.busiest(table, elements, type_bytes)
        return Shape(busiest // role.ranks, part.send_extent, part.recv_extent, 0, busiest, part)

    def has(self, placement: Placement, backend: str) -> bool:
        """Whether the backend has this placement: "not applicable" otherwise."""
        if placement is Placement.IN_PLACE:
            return backend in self.in_place
        return backend not in self.one_buffer_on


def _others_share(ranks: int) -> float:
    return (ranks - 1) / ranks


def _everywhere(overlap: InPlace) -> Mapping[str, InPlace]:
    return MappingProxyType(dict.fromkeys(("mpi", "nccl", "null"), overlap))


COLLECTIVES: Final = (
    Collective(
        name="all_reduce",
        number=0,
        summary="every rank gets the reduction of all ranks' data",
        reducing=True,
        synchronising=True,
        agreeing=True,
        busbw_factor=lambda ranks: 2 * (ranks - 1) / ranks,
        shape=layout.whole,
        sends=layout.contribution,
        receives=layout.reduced,
        in_place=_everywhere(InPlace.SAME),
    ),
    Collective(
        name="all_gather",
        number=1,
        summary="every rank gets all ranks' data, in rank order",
        synchronising=True,
        agreeing=True,
        busbw_factor=_others_share,
        shape=layout.blocks_received,
        sends=layout.own,
        receives=layout.one_block_per_rank,
        in_place=_everywhere(InPlace.SEND_WITHIN_RECV),
    ),
    Collective(
        name="reduce_scatter",
        number=3,
        summary="every rank gets its own block of the reduction of all ranks' data",
        reducing=True,
        synchronising=True,
        busbw_factor=_others_share,
        shape=layout.blocks_sent,
        sends=layout.contribution,
        receives=layout.own_block_reduced,
        # With MPI_IN_PLACE the result goes to the start of the buffer on every rank (MPI 4.1, 6.10.1).
        in_place=MappingProxyType(
            {"mpi": InPlace.SAME, "nccl": InPlace.RECV_WITHIN_SEND, "null": InPlace.SAME}
        ),
    ),
    Collective(
        name="alltoall",
        number=4,
        summary="every rank gets one block from every rank",
        synchronising=True,
        busbw_factor=_others_share,
        shape=layout.blocks_exchanged,
        sends=layout.own,
        receives=layout.own_block_from_each,
        # NCCL has none; nccl-tests times the aliased call without checking it (its #wrong is N/A), we do
        # not time what is undefined.
        in_place=MappingProxyType({"mpi": InPlace.SAME}),
    ),
    Collective(
        name="broadcast",
        number=5,
        summary="every rank gets the root's data",
        rooted=True,
        agreeing=True,
        shape=layout.whole,
        sends=layout.at_root(layout.own),
        receives=layout.from_root,
        in_place=_everywhere(InPlace.SAME),
        one_buffer_on=frozenset({"mpi"}),
    ),
    Collective(
        name="reduce",
        number=6,
        summary="the root gets the reduction of all ranks' data",
        reducing=True,
        rooted=True,
        shape=layout.whole,
        sends=layout.contribution,
        receives=layout.at_root(layout.reduced),
        in_place=_everywhere(InPlace.SAME),
    ),
    Collective(
        name="gather",
        number=7,
        summary="the root gets all ranks' data, in rank order",
        rooted=True,
        busbw_factor=_others_share,
        shape=layout.blocks_received,
        sends=layout.own,
        receives=layout.at_root(layout.one_block_per_rank),
        in_place=_everywhere(InPlace.SEND_WITHIN_RECV),
    ),
    Collective(
        name="scatter",
        number=8,
        summary="every rank gets its block of the root's data",
        rooted=True,
        busbw_factor=_others_share,
        shape=layout.blocks_sent,
        sends=layout.at_root(layout.own),
        receives=layout.own_block_from_root,
        in_place=_everywhere(InPlace.RECV_WITHIN_SEND),
    ),
    Collective(
        name="sendrecv",
        number=2,
        summary="a ring: every rank sends to the next and receives from the previous",
        shape=layout.whole,
        sends=layout.own,
        # Sending from the buffer being received into is undefined in MPI and NCCL: no in_place.
        receives=layout.from_source,
    ),
    Collective(
        name="hypercube",
        number=9,
        summary="all_gather in log2(ranks) steps of sends and receives that double",
        synchronising=True,
        agreeing=True,
        shape=layout.blocks_doubling,
        sends=layout.own,
        receives=layout.one_block_per_rank,
        in_place=_everywhere(InPlace.SEND_WITHIN_RECV),
        refuses=lambda ranks: f"{ranks} ranks: hypercube needs a power of two" if ranks & (ranks - 1) else "",
    ),
    Collective(
        name="alltoallv",
        number=11,
        summary="every rank gets a segment from every rank, each of its own size",
        # Not synchronising: ranks that exchange nothing do not wait for one another.
        busbw_factor=_others_share,
        shape=layout.blocks_exchanged,
        sends=layout.own_segments,
        # MPI has an in-place form for counts that are the same in both directions only; NCCL has none.
        receives=layout.segment_from_each,
        variable=Variable(counts.own_part, counts.busiest_elements, gathered=False),
    ),
    Collective(
        name="all_gatherv",
        number=12,
        summary="every rank gets all ranks' data, of which each has its own amount",
        agreeing=True,
        busbw_factor=_others_share,
        shape=layout.blocks_received,
        sends=layout.own_segments,
        receives=layout.one_segment_per_rank,
        variable=Variable(counts.gathered_part, counts.gathered_elements, gathered=True),
    ),
    Collective(
        name="permute",
        number=13,
        summary="given pairs: every source sends to its target",
        shape=layout.whole,
        sends=layout.own_if_paired,
        receives=layout.from_source,
    ),
    Collective(
        name="barrier",
        number=10,
        summary="no rank leaves before the last has entered; no data",
        synchronising=True,
        shape=layout.nothing,
        sends=layout.no_data,
        receives=layout.no_data,
        sized=False,
    ),
)


# Whose ranks may have different counts.
VARIABLE: Final = tuple(row.name for row in COLLECTIVES if row.variable is not None)


def known_collective(name: str) -> Collective | None:
    """Look a collective up by name; None for one that only an imported log has."""
    return next((row for row in COLLECTIVES if row.name == name), None)


def collective(name: str) -> Collective:
    """Look a collective up by name. Raises UsageError naming all of them."""
    if (row := known_collective(name)) is not None:
        return row
    hint = "give sizes by flags: -b 1M, or -b 8 -e 1G" if name[:1].isdigit() else ""
    raise UnknownWord(f"unknown operation {name!r}", name, (row.name for row in COLLECTIVES), hint=hint)


def unsupported(backend: str, row: Collective, dtype: DataType) -> str:
    """Why the backend does not have the collective for the type; empty where it may."""
    if backend == "nccl" and row.reducing and dtype.name in ("int16", "uint16"):
        return "NCCL has no 16-bit integers: it can move their bytes, not reduce them"
    return ""
