"""A rank's two buffers: what they hold before a call and must hold after it, in host or device memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from busbw._native import core
from busbw.backends.base import CheckOutcome
from busbw.model.case import Case
from busbw.model.collective import Holds, Region, Shape

# All ones: NaN in every float type and -1 in the signed ones, which no reduction of the check data gives.
POISON_BYTE = 0xFF


class Memory(Protocol):
    """Memory of one kind. Addresses are plain ints."""

    def allocate(self, size_bytes: int) -> int:
        """New bytes, already backed by real pages, so that no first touch falls into a timed region."""

    def release(self, address: int) -> None:
        """Give back what allocate returned."""

    def overwrite(self, address: int, size_bytes: int, byte: int = POISON_BYTE) -> None:
        """Set every byte, by default to one that no check expects."""

    def fill(self, address: int, pattern: core.Pattern, region: core.Region) -> None:
        """Write a region of the buffer at ``address``."""

    def check(self, address: int, pattern: core.Pattern, regions: Iterable[core.Region]) -> core.CheckResult:
        """Compare regions of the buffer at ``address``."""


@dataclass(frozen=True)
class BufferPair:
    """Send and receive buffer of one rank, both ``size_bytes`` long (the largest size of the sweep)."""

    memory: Memory
    send: int
    recv: int
    size_bytes: int

    @classmethod
    def allocate(cls, memory: Memory, size_bytes: int) -> BufferPair:
        """Allocate both; at least one page each, so that zero-byte cases have valid addresses."""
        size = max(size_bytes, 4096)
        return cls(memory, memory.allocate(size), memory.allocate(size), size)

    def release(self) -> None:
        """Give both back."""
        self.memory.release(self.send)
        self.memory.release(self.recv)

    def warm(self, case: Case, rank: int, ranks: int) -> None:
        """Put well-formed values of the case's type everywhere, so that timing reads no NaN or denormals."""
        pattern = _pattern(case, 0, ranks)
        count = self.size_bytes // case.data_type.size_bytes
        region = core.Region(0, count, 0, Holds.CONTRIBUTION, rank)
        self.memory.fill(self.send, pattern, region)
        self.memory.fill(self.recv, pattern, region)


@dataclass(frozen=True)
class CaseBuffers:
    """The part of a buffer pair that one case uses. Slots are ``stride_bytes`` apart in both buffers, as in
    nccl-tests (startColl in common.cu), where each call works on the next slot to defeat caches.
    """

    pair: BufferPair
    case: Case
    shape: Shape
    rank: int
    ranks: int
    stride_bytes: int
    slots: int

    @classmethod
    def of(cls, pair: BufferPair, case: Case, rank: int, ranks: int, *, rotate: bool) -> CaseBuffers:
        """Lay the case out in the pair."""
        shape = case.shape(ranks)
        stride = case.size_bytes
        slots = max(1, pair.size_bytes // stride) if rotate and stride else 1
        return cls(pair, case, shape, rank, ranks, stride if slots > 1 else 0, slots)

    @property
    def send(self) -> int:
        """Address of the send argument at slot 0; inside the receive buffer when in place."""
        if not self.case.in_place:
            return self.pair.send
        return self.pair.recv + self.rank * self.shape.in_place_stride * self.case.data_type.size_bytes

    @property
    def recv(self) -> int:
        """Address of the receive argument at slot 0."""
        return self.pair.recv

    def load(self, seed: int, slot: int) -> None:
        """Poison the slot's receive part, then write this rank's own data into the send part."""
        at = slot * self.stride_bytes
        type_bytes = self.case.data_type.size_bytes
        self.pair.memory.overwrite(self.recv + at, self.shape.recv_count * type_bytes)
        pattern = _pattern(self.case, seed, self.ranks)
        for region in self.case.row.sends(self.shape, self.rank, self.ranks):
            self.pair.memory.fill(self.send + at, pattern, _native(region))

    def check(self, seed: int, slot: int) -> CheckOutcome:
        """Compare the slot's receive part, the whole of it, with what the collective must have written."""
        at = slot * self.stride_bytes
        pattern = _pattern(self.case, seed, self.ranks)
        regions = self.case.row.receives(self.shape, self.rank, self.ranks)
        result = self.pair.memory.check(self.recv + at, pattern, map(_native, regions))
        first = -1 if result.wrong == 0 else result.first_wrong
        return CheckOutcome(result.wrong, first, result.digest)


def _pattern(case: Case, seed: int, ranks: int) -> core.Pattern:
    op = case.reduce_op
    return core.pattern(seed, ranks, case.data_type.number, op.number if op is not None else 0)


def _native(region: Region) -> core.Region:
    return core.Region(region.offset, region.count, region.first_index, region.holds, region.rank)
