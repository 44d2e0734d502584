"""Who sends how much to whom in a call of variable sizes: alltoallv and all_gatherv.

A :class:`CountTable` says it once for a whole sweep; the sizes scale it. ``own_part`` and ``gathered_part``
give one rank's part of one call as an :class:`Exchange`. It is integers, but for a spread, whose few double
operations have one result everywhere: ranks agree to the element.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

ELEMENTS: Final = "elements"
BYTES: Final = "bytes"
SHARES: Final = "shares"  # relative: sizes are cut to a whole share for every rank first, as nccl-tests cuts


@dataclass(frozen=True)
class Exchange:
    """One rank's part of a call, in elements by peer. ``source_offsets`` are where in its send buffer each
    peer keeps what this rank receives. An all_gatherv sends one segment, to everybody.
    """

    send_counts: tuple[int, ...]
    send_offsets: tuple[int, ...]
    recv_counts: tuple[int, ...]
    recv_offsets: tuple[int, ...]
    source_offsets: tuple[int, ...]

    @property
    def send_extent(self) -> int:
        """Elements from the start of the send buffer to the end of its last segment."""
        return _extent(self.send_counts, self.send_offsets)

    @property
    def recv_extent(self) -> int:
        """Elements from the start of the receive buffer to the end of its last segment."""
        return _extent(self.recv_counts, self.recv_offsets)


@dataclass(frozen=True)
class CountTable:
    """Relative or exact amounts. ``send[r][p]`` is what rank r sends to rank p, or in an all_gatherv, whose
    rows have one entry, to everybody. One row alone is every rank's; ``by_distance``: its entry d is for the
    rank d further on (modulo ranks).

    ``unit`` is what a row counts. ``send_offsets`` and ``recv_offsets`` are as ``send``,
    receive rows over sources; empty where segments follow one another. ``whole`` is the busiest rank's total
    in the unit, that is what the size of a case stands for. Scaled segments are cut to multiples of
    ``align_bytes``. ``origin`` says where the table comes from, for the record.
    """

    origin: str
    ranks: int
    send: tuple[tuple[int, ...], ...]
    whole: int
    unit: str = ELEMENTS
    by_distance: bool = False
    send_offsets: tuple[tuple[int, ...], ...] = ()
    recv_offsets: tuple[tuple[int, ...], ...] = ()
    align_bytes: int = 1
    extent: int = 0  # furthest end of a segment in the unit where offsets leave gaps, else 0
    collective: str = ""  # whose table it is
    spread: float | None = None  # by distance, in nccl-tests' own arithmetic: ``send`` only shows the weights
    file_ranks: int = 0  # of a matrix: how many its file is for, which may be more than ``ranks``

    @property
    def is_exact(self) -> bool:
        """Whether it states amounts, and not only how they relate."""
        return self.unit != SHARES

    def size_bytes(self, type_bytes: int) -> int:
        """The size at which a table of elements or bytes is met exactly."""
        return self.whole * (type_bytes if self.unit == ELEMENTS else 1)

    @property
    def imbalance(self) -> float:
        """What the busiest rank moves (in an all_gatherv: gives) over the mean; 1 where all are alike."""
        busiest = self.whole if len(self.send[0]) > 1 else max(row[0] for row in self.send)
        return busiest * self.ranks / self._total

    @property
    def _total(self) -> int:
        """Of all ranks together, in the unit; at least 1."""
        rows = sum(map(sum, self.send))
        return max(1, rows * self.ranks if len(self.send) == 1 else rows)

    def evenly(self) -> CountTable:
        """The same total at the same size, and every segment alike: what is uneven is held against it."""
        segments = self.ranks * len(self.send[0])
        return CountTable(
            origin=f"{self.origin}, evenly spread",
            ranks=self.ranks,
            send=((self._total,) * len(self.send[0]),),
            whole=self.whole * segments,
            unit=self.unit,
            align_bytes=self.align_bytes,
            collective=self.collective,
        )

    def buffer_bytes(self, size_bytes: int) -> int:
        """What a buffer needs at this size: more than it where offsets leave gaps."""
        if self.extent <= self.whole or not self.whole:
            return size_bytes
        return -(-size_bytes * self.extent // self.whole)


def own_part(table: CountTable, elements: int, type_bytes: int, rank: int) -> Exchange:
    """What ``rank`` sends and receives in an alltoallv whose busiest rank moves ``elements``."""
    scale = _Scale(table, elements, type_bytes)
    rows = scale.rows()
    if table.send_offsets:
        sources = [scale.position(_of(table.send_offsets, source)[rank]) for source in range(table.ranks)]
    else:
        sources = [sum(row[:rank]) for row in rows]
    received = tuple(row[rank] for row in rows)
    return Exchange(
        send_counts=rows[rank],
        send_offsets=scale.offsets(table.send_offsets, rank, rows[rank]),
        recv_counts=received,
        recv_offsets=scale.offsets(table.recv_offsets, rank, received),
        source_offsets=tuple(sources),
    )


def gathered_part(table: CountTable, elements: int, type_bytes: int, rank: int) -> Exchange:
    """What ``rank`` gives and gets in an all_gatherv whose output holds ``elements``."""
    scale = _Scale(table, elements, type_bytes)
    given = tuple(scale.count(_of(table.send, peer)[0]) for peer in range(table.ranks))
    sources = tuple(
        scale.position(_of(table.send_offsets, peer)[0]) if table.send_offsets else 0
        for peer in range(table.ranks)
    )
    return Exchange(
        send_counts=(given[rank],),
        send_offsets=(sources[rank],),
        recv_counts=given,
        recv_offsets=scale.offsets(table.recv_offsets, rank, given),
        source_offsets=sources,
    )


def busiest_elements(table: CountTable, elements: int, type_bytes: int) -> int:
    """The larger of what any rank sends and receives in an alltoallv, in elements, after scaling."""
    scale = _Scale(table, elements, type_bytes)
    if table.by_distance:  # every rank moves the same
        return sum(scale.row(0))
    if len(table.send) == 1:
        row = scale.row(0)
        return max(sum(row), table.ranks * max(row, default=0))
    rows = scale.rows()
    return int(max(*map(sum, rows), *(sum(column) for column in zip(*rows, strict=True))))


def gathered_elements(table: CountTable, elements: int, type_bytes: int) -> int:
    """The output of an all_gatherv in elements, after scaling."""
    scale = _Scale(table, elements, type_bytes)
    return sum(scale.count(_of(table.send, rank)[0]) for rank in range(table.ranks))


def table_of(
    tables: Sequence[CountTable], name: str, cycle: int = 0, *, even: bool = False
) -> CountTable | None:
    """A collective's counts in a cycle, a table's number where it has several; None where it has none."""
    own = [table for table in tables if table.collective == name]
    if not own:
        return None
    found = own[cycle % len(own)]
    return found.evenly() if even else found


def most_tables(tables: Sequence[CountTable]) -> int:
    """How many tables a collective has at most, for a sweep to take in turn; at least 1."""
    return max(Counter(table.collective for table in tables).values(), default=1)


def even_table(ranks: int, *, gathered: bool) -> CountTable:
    """Everybody the same: alltoall and all_gather by way of the variable calls."""
    row = (1,) if gathered else (1,) * ranks
    return CountTable("even", ranks, (row,), ranks, SHARES, align_bytes=SEGMENT_ALIGNMENT_BYTES)


# nccl-tests cuts each rank's share to a multiple of 16 bytes.
SEGMENT_ALIGNMENT_BYTES: Final = 16


class _Scale:
    """Amounts of a table to elements at one size. Rounding down keeps segments apart: the floors of two
    numbers never add up to more than the floor of their sum.
    """

    def __init__(self, table: CountTable, elements: int, type_bytes: int) -> None:
        self._table = table
        self._type_bytes = type_bytes
        self._step = max(1, table.align_bytes // type_bytes)
        whole_shares = elements // table.ranks // self._step * self._step * table.ranks
        self._elements = whole_shares if table.unit == SHARES else elements

    def position(self, amount: int) -> int:
        """An offset, in elements."""
        table = self._table
        return amount * self._elements // table.whole if table.whole else 0

    def offsets(self, rows: tuple[tuple[int, ...], ...], rank: int, counts: Iterable[int]) -> tuple[int, ...]:
        """Those of a rank's segments, which follow one another where there are no ``rows``."""
        if rows:
            return tuple(map(self.position, _of(rows, rank)))
        return tuple(accumulate(counts, initial=0))[:-1]

    def count(self, amount: int) -> int:
        """A segment, in elements."""
        return self.position(amount) // self._step * self._step

    def rows(self) -> list[tuple[int, ...]]:
        """What each rank sends to each."""
        if len(self._table.send) == 1 and not self._table.by_distance:
            return [self.row(0)] * self._table.ranks
        return list(map(self.row, range(self._table.ranks)))

    def row(self, rank: int) -> tuple[int, ...]:
        """What a rank sends to each."""
        if self._table.spread is not None:
            peers = range(self._table.ranks)
            return tuple(self._at_distance((peer - rank) % len(peers), self._table.spread) for peer in peers)
        row = _of(self._table.send, rank)
        if self._table.by_distance:
            row = row[-rank:] + row[:-rank] if rank else row
        return tuple(map(self.count, row))

    def _at_distance(self, distance: int, spread: float) -> int:
        """A segment of nccl-tests 2.19.6's generated traffic (AlltoAllvGetPeerBytesDistanceWeighted of its
        src/alltoallv.cu): the same operations on doubles in the same order, for where they do not come out
        at a whole multiple of 16 bytes it sends 16 bytes less.
        """
        ranks, total = self._table.ranks, float(self._elements * self._type_bytes)
        share = total
        if ranks > 1:
            uniform = total / ranks
            by_distance = distance * total / (ranks * (ranks - 1) // 2)
            share = (1.0 - spread) * uniform + spread * by_distance
        return int(share) // self._table.align_bytes * self._table.align_bytes // self._type_bytes


def _of(rows: tuple[tuple[int, ...], ...], rank: int) -> tuple[int, ...]:
    return rows[rank if len(rows) > 1 else 0]


def _extent(counts: tuple[int, ...], offsets: tuple[int, ...]) -> int:
    ends = (offset + count for count, offset in zip(counts, offsets, strict=True) if count)
    return max(ends, default=0)
