"""What busbw makes of sends and receives moves the right blocks: the calls of every rank, carried out."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from busbw_testing.cases import case_of

from busbw.machine.native import core
from busbw.model.case import Case
from busbw.model.collective import InPlace, Placement, Region, Role, collective
from busbw.model.counts import CountTable
from busbw.plan.router import skew_table, spread_table
from busbw.rank.backends.nccl_support import LATE_FUNCTIONS, support_of
from busbw.rank.backends.parts import gathered_offset, native_segments

MakeSite = Callable[..., Any]

COUNT_BYTES = 512
ALL_SIZES = (1, 2, 3, 4, 5, 8)
POISON = -1


class Rank:
    """Real memory of one rank, laid out as the backend lays it out, and what its call asked for."""

    def __init__(self, case: Case, role: Role) -> None:
        self.case, self.role = case, role
        self.shape = case.shape_for(role)
        self.send = np.full(max(1, self.shape.send_count, self.shape.recv_count), POISON, np.int32)
        self.recv = self.send.copy()
        overlap = case.row.in_place["nccl"] if case.in_place else None
        own = role.rank * self.shape.block_count
        self.send_view, self.recv_view = self.send, self.recv
        if overlap is not None:
            self.send_view = self.recv[own:] if overlap is InPlace.SEND_WITHIN_RECV else self.recv
            self.recv_view = self.recv[own:] if overlap is InPlace.RECV_WITHIN_SEND else self.recv
        for region in case.row.sends(self.shape, role):
            self.send_view[region.offset : region.offset + region.count] = values(region)
        self.groups: list[list[tuple[str, ...]]] = []
        self.copies: list[tuple[str, ...]] = []

    def received_everything(self) -> bool:
        return all(
            (self.recv_view[region.offset : region.offset + region.count] == values(region)).all()
            for region in self.case.row.receives(self.shape, self.role)
        )


def values(region: Region) -> Any:
    return region.rank * 100_000 + np.arange(region.first_index, region.first_index + region.count)


def ask(rank: Rank, site: Any) -> None:
    """Issue the rank's call against the stand-ins and keep what it asked for, by group."""
    channel = site.backend._channel
    segments = native_segments(rank.shape, rank.role)  # alive until the call is made
    spec = core.NcclSpec(
        collective=rank.case.row.number,
        datatype=2,
        rank=rank.role.rank,
        ranks=rank.role.ranks,
        root=rank.role.root,
        aggregate=1,
        type_bytes=4,
        nccl=ctypes.pointer(channel.nccl_table),
        cuda=ctypes.pointer(channel.cuda_table),
        comm=channel.comm,
        stream=channel.stream,
        send=rank.send_view.ctypes.data + 4 * gathered_offset(rank.case.row, rank.shape),
        recv=rank.recv_view.ctypes.data,
        count=rank.shape.call_count,
        rotation=core.Rotation(0, 0, 1),
        segments=segments,
    )
    site.forget()
    call = core.Call.nccl(spec, (channel, spec))
    call.issue()
    call.close()
    for line in site.asked():
        if line[0] == "GroupStart":
            rank.groups.append([])
        elif line[0] == "MemcpyDtoDAsync":
            rank.copies.append(line)
        elif line[0] != "GroupEnd":
            rank.groups[-1].append(line)


def carry_out(ranks: list[Rank]) -> None:
    """Copies first, then group after group: sends and receives of a pair of ranks match in order, and all of
    a group read before any writes. Every one must find its match, of the same count.
    """
    for rank in ranks:
        for _, to, source, size, _ in rank.copies:
            ctypes.memmove(int(to), int(source), int(size))
    assert len({len(rank.groups) for rank in ranks}) == 1
    for step in range(len(ranks[0].groups)):
        sent: dict[tuple[int, int], list[bytes]] = {}
        for number, rank in enumerate(ranks):
            for _, address, count, _, peer, *_ in of(rank, step, "Send"):
                data = ctypes.string_at(int(address), 4 * int(count))
                sent.setdefault((number, int(peer)), []).append(data)
        for number, rank in enumerate(ranks):
            for _, address, count, _, peer, *_ in of(rank, step, "Recv"):
                data = sent[int(peer), number].pop(0)
                assert len(data) == 4 * int(count)
                ctypes.memmove(int(address), data, len(data))
        assert not any(sent.values())
        broadcast(ranks, step)


def broadcast(ranks: list[Rank], step: int) -> None:
    """Broadcasts match in order: all ranks name one root and count, and the root's data go everywhere."""
    for calls in zip(*(of(rank, step, "Broadcast") for rank in ranks), strict=True):
        assert len({(line[3], line[5]) for line in calls}) == 1
        root, size = int(calls[0][5]), 4 * int(calls[0][3])
        data = ctypes.string_at(int(calls[root][1]), size)
        for line in calls:
            ctypes.memmove(int(line[2]), data, size)


def of(rank: Rank, step: int, name: str) -> Iterator[tuple[str, ...]]:
    return (line for line in rank.groups[step] if line[0] == name)


def applicable() -> Iterator[tuple[str, Placement, int]]:
    for name in ("sendrecv", "alltoall", "gather", "scatter", "hypercube"):
        row = collective(name)
        for placement in Placement:
            sizes = ALL_SIZES if row.has(placement, "nccl") else ()
            yield from ((name, placement, size) for size in sizes if not row.refuses(size))


@pytest.mark.parametrize(("name", "placement", "size"), list(applicable()))
def test_every_block_arrives(make_site: MakeSite, name: str, placement: Placement, size: int) -> None:
    case = case_of(name, size, dtype="int32", size_bytes=COUNT_BYTES, placement=placement)
    site = make_site(grouped=True)
    for root in range(size) if case.row.rooted else (0,):
        ranks = [Rank(case, Role(number, size, root)) for number in range(size)]
        for rank in ranks:
            ask(rank, site)
        carry_out(ranks)
        assert all(rank.received_everything() for rank in ranks), f"root {root}"


def uneven() -> Iterator[tuple[CountTable, int]]:
    for size in ALL_SIZES:
        yield spread_table(1.0, size), size
        for name in ("alltoallv", "all_gatherv"):
            yield skew_table((1 + size) / 2, name, size), size
            yield skew_table(float(size), name, size), size
        rows = tuple(tuple((3 * source + target) % 4 for target in range(size)) for source in range(size))
        whole = max(*map(sum, rows), *(sum(row[to] for row in rows) for to in range(size)), 1)
        places = tuple(4 * (size - 1 - peer) for peer in range(size))
        yield CountTable("r", size, rows, whole, send_offsets=(places,), recv_offsets=(places,),
                         extent=4 * size, collective="alltoallv"), size  # fmt: skip
        given = tuple((rank % 3 + 1,) for rank in range(size))
        yield CountTable("g", size, given, sum(row[0] for row in given), send_offsets=((2,),) * size,
                         recv_offsets=(places,), extent=4 * size, collective="all_gatherv"), size  # fmt: skip


@pytest.mark.parametrize(("table", "size"), list(uneven()))
def test_every_segment_arrives(make_site: MakeSite, table: CountTable, size: int) -> None:
    case = case_of(table.collective, size, dtype="int32", size_bytes=COUNT_BYTES)
    site = make_site()
    ranks = [Rank(case, Role(number, size, counts=table)) for number in range(size)]
    for rank in ranks:
        ask(rank, site)
    carry_out(ranks)
    assert all(rank.received_everything() for rank in ranks)
    assert all(int(line[2]) for rank in ranks for line in of(rank, 0, "Send"))  # none is empty


@pytest.mark.parametrize(
    "pairs", [(), ((0, 3), (3, 0)), ((1, 1), (2, 0)), tuple((rank, 3 - rank) for rank in range(4))]
)
def test_pairs_exchange_and_others_do_nothing(
    make_site: MakeSite, pairs: tuple[tuple[int, int], ...]
) -> None:
    case = case_of("permute", 4, dtype="int32", size_bytes=COUNT_BYTES)
    ranks = [Rank(case, Role(number, 4, pairs=pairs)) for number in range(4)]
    site = make_site()
    for rank in ranks:
        ask(rank, site)
    carry_out(ranks)
    assert all(rank.received_everything() for rank in ranks)
    assert sum(len(rank.groups[0]) for rank in ranks) == 2 * (len(pairs) or 4)


@pytest.mark.parametrize("placement", list(Placement))
def test_hypercube_copies_its_own_block_only_out_of_place(make_site: MakeSite, placement: Placement) -> None:
    case = case_of("hypercube", 4, dtype="int32", size_bytes=COUNT_BYTES, placement=placement)
    rank = Rank(case, Role(2, 4))
    ask(rank, make_site())
    block = COUNT_BYTES // 4
    own = rank.recv.ctypes.data + 2 * block
    expected = [("MemcpyDtoDAsync", str(own), str(rank.send.ctypes.data), str(block), str(0x200))]
    assert rank.copies == ([] if case.in_place else expected)
    assert [len(group) for group in rank.groups] == [2, 2]


def test_a_hypercube_without_bytes_copies_nothing(make_site: MakeSite) -> None:
    rank = Rank(case_of("hypercube", 4, dtype="int32", size_bytes=0), Role(2, 4))
    ask(rank, make_site())
    assert rank.copies == []


def test_hypercube_of_three_ranks_is_no_call(make_site: MakeSite) -> None:
    with pytest.raises(ValueError, match="no such call"):
        ask(Rank(case_of("hypercube", 3, dtype="int32"), Role(0, 3)), make_site())


@pytest.mark.parametrize("name", sorted(LATE_FUNCTIONS))
@pytest.mark.parametrize(("version", "grouped"), [(22707, False), (22803, False), (22803, True)])
def test_late_functions_are_grouped_and_marked_where_they_are_missing(
    make_site: MakeSite, name: str, version: int, grouped: bool
) -> None:
    site = make_site(version=version, grouped=grouped)
    case = case_of(name, 4)
    expected = grouped or version < 22803
    site.forget()
    site.backend.prepare(case).run(0)
    assert ("GroupStart" in site.names()) == expected
    assert site.backend.conditions(case) == (("grouped",) if expected else ())
    support = support_of(site.backend._nccl, (9, 0), 1, grouped=grouped)
    assert support.functions == (frozenset() if expected else frozenset(LATE_FUNCTIONS))


def test_a_failed_send_closes_its_group(make_site: MakeSite, monkeypatch: pytest.MonkeyPatch) -> None:
    site = make_site()
    prepared = site.backend.prepare(case_of("sendrecv", 4))
    site.forget()
    monkeypatch.setenv("STAND_IN_FAILS", "Send")
    with pytest.raises(Exception, match="NCCL call failed"):
        prepared.run(0)
    assert site.names() == ["GroupStart", "Send", "GroupEnd"]
