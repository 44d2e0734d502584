"""A rank's two buffers: what they hold before a call and must hold after it, in host or device memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from busbw._native import core
from busbw.backends import values
from busbw.backends.base import CheckOutcome
from busbw.model.case import Case
from busbw.model.collective import Holds, InPlace, Region, Role, Shape

Uint8Array = npt.NDArray[np.uint8]

# What new memory holds: NaN in every float type and -1 in the signed ones.
POISON_BYTE = 0xFF
# Or'ed to what a region holds: every bit of every element inverted (BusbwRegion.kind).
COMPLEMENT: Final = 16
# Of the widest element type: what one element of misalignment takes at most.
_WIDEST_BYTES: Final = 8
_PIECE_ELEMENTS: Final = 2**18
_GROUP_SHIFT: Final = 49  # above the seeds of checks, which begin with 48 bits


class Memory(Protocol):
    """Memory of one kind. Addresses are plain ints."""

    def allocate(self, size_bytes: int) -> int:
        """New bytes, already backed by real pages, so that no first touch falls into a timed region."""

    def release(self, address: int) -> None:
        """Give back what allocate returned."""

    def overwrite(self, address: int, size_bytes: int, byte: int = POISON_BYTE) -> None:
        """Set every byte, by default to all ones."""

    def fill(self, address: int, pattern: core.Pattern, region: core.Region) -> None:
        """Write a region of the buffer at ``address``."""

    def check(self, address: int, pattern: core.Pattern, regions: Iterable[core.Region]) -> core.CheckResult:
        """Compare regions of the buffer at ``address``."""

    def read(self, address: int, size_bytes: int) -> Uint8Array:
        """A copy of the bytes, in host memory."""

    def write(self, address: int, data: Uint8Array) -> None:
        """Set the bytes."""


@dataclass(frozen=True)
class BufferPair:
    """Send and receive buffer of one rank, both ``size_bytes`` long (the largest size of the sweep) after
    ``unalign`` elements of any type.
    """

    memory: Memory
    send: int
    recv: int
    size_bytes: int
    unalign: int = 0

    @classmethod
    def allocate(cls, memory: Memory, size_bytes: int, unalign: int = 0) -> BufferPair:
        """Allocate both; at least one page each, so that zero-byte cases have valid addresses."""
        size = max(size_bytes, 4096)
        padded = size + unalign * _WIDEST_BYTES
        return cls(memory, memory.allocate(padded), memory.allocate(padded), size, unalign)

    @property
    def allocated_bytes(self) -> int:
        """Of each of the two."""
        return self.size_bytes + self.unalign * _WIDEST_BYTES

    def release(self) -> None:
        """Give both back."""
        self.memory.release(self.send)
        self.memory.release(self.recv)

    def warm(self, case: Case, role: Role) -> None:
        """Put well-formed values of the case's type everywhere, so that timing reads no NaN or denormals."""
        # Any values do: a mean that cannot be checked is timed over those of a sum.
        pattern = _pattern(case if checkable(case, role.ranks) else replace(case, op="sum"), 0, role.ranks)
        count = self.allocated_bytes // case.data_type.size_bytes
        region = core.Region(0, count, 0, Holds.CONTRIBUTION, role.rank)
        self.memory.fill(self.send, pattern, region)
        self.memory.fill(self.recv, pattern, region)


@dataclass(frozen=True)
class CaseBuffers:
    """The part of a buffer pair that one case uses. Slots are ``stride_bytes`` apart in both buffers, as in
    nccl-tests (startColl in common.cu), where each call works on the next slot to defeat caches.

    ``send`` and ``recv`` are the addresses of the two arguments at slot 0: in place, both lie in what is
    otherwise the receive buffer.
    """

    pair: BufferPair
    case: Case
    shape: Shape
    role: Role
    send: int
    recv: int
    stride_bytes: int
    slots: int
    data: str = values.EXACT

    @classmethod
    def of(
        cls,
        pair: BufferPair,
        case: Case,
        role: Role,
        overlap: InPlace | None,
        *,
        rotate: bool,
        data: str = values.EXACT,
    ) -> CaseBuffers:
        """Lay the case out in the pair; ``overlap`` is how its buffers share memory, None out of place.
        ``data`` is what is moved and checked.
        """
        shape = case.shape_for(role)
        type_bytes = case.data_type.size_bytes
        # Where ranks differ, the case's size is the busiest one's, and gaps between segments come on top.
        stride = max(case.size_bytes, shape.send_count * type_bytes, shape.recv_count * type_bytes)
        slots = max(1, pair.size_bytes // stride) if rotate and stride else 1
        start = pair.unalign * type_bytes
        own_block = role.rank * shape.block_count * type_bytes
        send = (pair.send if overlap is None else pair.recv) + start
        recv = pair.recv + start
        if overlap is InPlace.SEND_WITHIN_RECV:
            send += own_block
        elif overlap is InPlace.RECV_WITHIN_SEND:
            recv += own_block
        return cls(pair, case, shape, role, send, recv, stride if slots > 1 else 0, slots, data)

    def load(self, seed: int, slot: int) -> None:
        """Make everything that the call must write wrong in every bit, then write this rank's own data."""
        at = slot * self.stride_bytes
        if self.data != values.EXACT:
            HostChecked(self, self.source(seed)).load(at)
            return
        pattern = pattern_of(self, seed)
        for region in self.case.row.receives(self.shape, self.role):
            self.pair.memory.fill(self.recv + at, pattern, native_region(region, COMPLEMENT))
        for region in self.case.row.sends(self.shape, self.role):
            self.pair.memory.fill(self.send + at, pattern, native_region(region))

    def check(self, seed: int, slot: int) -> CheckOutcome:
        """Compare the slot's receive part, the whole of it, with what the collective must have written."""
        at = slot * self.stride_bytes
        if self.data != values.EXACT:
            return HostChecked(self, self.source(seed)).check(at)
        pattern = pattern_of(self, seed)
        regions = self.case.row.receives(self.shape, self.role)
        result = self.pair.memory.check(self.recv + at, pattern, map(native_region, regions))
        first = -1 if result.wrong == 0 else result.first_wrong
        return CheckOutcome(result.wrong, first, result.digest)

    def own_seed(self, seed: int) -> int:
        """Other data in every group, so that what strays from one into another is found."""
        return (seed + (self.role.group << _GROUP_SHIFT)) % 2**64

    def source(self, seed: int) -> values.Source:
        """What the values of a check depend on."""
        case = self.case
        return values.Source(self.data, self.own_seed(seed), self.role.ranks, case.data_type, case.op)


class HostChecked:
    """Data that are made and compared on the host, piece by piece, wherever the buffers lie."""

    def __init__(self, buffers: CaseBuffers, source: values.Source) -> None:
        self._buffers = buffers
        self._source = source
        self._memory = buffers.pair.memory
        self._type_bytes = source.dtype.size_bytes

    def load(self, at: int) -> None:
        """See CaseBuffers.load; ``at`` is the slot's offset in bytes."""
        buffers = self._buffers
        for region in pieces(buffers.case.row.receives(buffers.shape, buffers.role)):
            self._write(buffers.recv + at, region, ~values.contents(self._source, region))
        for region in pieces(buffers.case.row.sends(buffers.shape, buffers.role)):
            self._write(buffers.send + at, region, values.contents(self._source, region))

    def check(self, at: int) -> CheckOutcome:
        """See CaseBuffers.check."""
        buffers = self._buffers
        wrong, first, digest = 0, -1, 0
        for region in pieces(buffers.case.row.receives(buffers.shape, buffers.role)):
            place = buffers.recv + at + region.offset * self._type_bytes
            actual = self._memory.read(place, region.count * self._type_bytes).view(self._source.unsigned)
            bad = np.flatnonzero(values.wrong_elements(self._source, region, actual))
            if len(bad):
                wrong += len(bad)
                found = region.offset + int(bad[0])
                first = found if first < 0 else min(first, found)
            index = np.arange(region.first_index, region.first_index + region.count, dtype=np.uint64)
            digest += values.digest(index, actual)
        return CheckOutcome(wrong, first, digest % 2**64)

    def _write(self, address: int, region: Region, bits: values.Bits) -> None:
        self._memory.write(address + region.offset * self._type_bytes, bits.view(np.uint8))


def hint_of_size(fits_bytes: int, *, has_gaps: bool) -> str:
    """What to do where two buffers do not fit, of which two of ``fits_bytes`` would."""
    if has_gaps:
        return "lower the displacements of --counts: buffers reach as far as they do"
    return f"the largest size that fits is -e {fits_bytes // 2**20}M"


def pieces(regions: Iterable[Region]) -> Iterable[Region]:
    """Regions cut so that their values on all ranks fit into memory."""
    for region in regions:
        for start in range(0, region.count, _PIECE_ELEMENTS):
            yield replace(
                region,
                offset=region.offset + start,
                count=min(_PIECE_ELEMENTS, region.count - start),
                first_index=region.first_index + start,
            )


def checkable(case: Case, ranks: int, data: str = values.EXACT) -> bool:
    """Whether there is check data for the case's type and reduction on so many ranks: a mean of 8-bit
    integers of many ranks is 0 whatever they bring.
    """
    if data != values.EXACT:
        return values.has_data(values.Source(data, 0, ranks, case.data_type, case.op))
    try:
        _pattern(case, 0, ranks)
    except ValueError:
        return False
    return True


def _pattern(case: Case, seed: int, ranks: int) -> core.Pattern:
    op = case.reduce_op
    return core.pattern(seed, ranks, case.data_type.number, op.number if op is not None else 0)


def pattern_of(buffers: CaseBuffers, seed: int) -> core.Pattern:
    """The exact data of a check."""
    return _pattern(buffers.case, buffers.own_seed(seed), buffers.role.ranks)


def native_region(region: Region, flags: int = 0) -> core.Region:
    """As the core takes it."""
    return core.Region(region.offset, region.count, region.first_index, region.holds | flags, region.rank)
