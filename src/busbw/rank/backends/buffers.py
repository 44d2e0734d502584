"""A rank's two buffers: what they hold before a call and must hold after it, in host or device memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from busbw.machine.native import core
from busbw.model.case import Case
from busbw.model.collective import Holds, InPlace, Region, Role, Shape
from busbw.rank.backends import values
from busbw.rank.backends.base import CheckOutcome, Strays

Uint8Array = npt.NDArray[np.uint8]

# What new memory holds: NaN in every float type and -1 in the signed ones.
POISON_BYTE = 0xFF
# Or'ed to what a region holds: every bit of every element inverted (BusbwRegion.kind).
COMPLEMENT: Final = 16
# Or'ed to what a region of a mean holds: the sum, before it is divided.
UNDIVIDED: Final = 32
# Size of what is written before and behind the part of a buffer that a call may write, and checked
# afterwards.
BAND_BYTES: Final = 4096
# Size of the widest element type: what one element of misalignment takes at most.
_WIDEST_BYTES: Final = 8
_PIECE_ELEMENTS: Final = 2**18
_GROUP_SHIFT: Final = 49  # above the seeds of checks, which begin with 48 bits
_BAND_SEED: Final = 1
_BAND_SHIFT: Final = 40  # bands of other ranks and buffers hold other values


class Memory(Protocol):
    """Memory of one kind. Addresses are plain ints. Buffers begin at a multiple of ``alignment_bytes`` from
    what ``allocate`` returns, at least a band's.
    """

    alignment_bytes: int

    def allocate(self, size_bytes: int) -> int:
        """New bytes, already backed by real pages, so that no first touch falls into a timed region."""

    def release(self, address: int) -> None:
        """Give back what allocate returned."""

    def overwrite(self, address: int, size_bytes: int, byte: int = POISON_BYTE) -> None:
        """Set every byte, by default to all ones."""

    def fill(self, address: int, pattern: core.Pattern, *regions: core.Region) -> None:
        """Write regions of the buffer at ``address``."""

    def check(self, address: int, pattern: core.Pattern, regions: Iterable[core.Region]) -> core.CheckResult:
        """Compare regions of the buffer at ``address``."""

    def read(self, address: int, size_bytes: int) -> Uint8Array:
        """A copy of the bytes, in host memory."""

    def write(self, address: int, data: Uint8Array) -> None:
        """Set the bytes."""


@dataclass(frozen=True)
class BufferPair:
    """Send and receive buffer of one rank, both ``size_bytes`` long (the largest size of the sweep) after
    ``unalign`` elements of any type. Before and behind each is room for a band.
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
        front = memory.alignment_bytes
        padded = front + size + unalign * _WIDEST_BYTES + BAND_BYTES
        return cls(memory, memory.allocate(padded) + front, memory.allocate(padded) + front, size, unalign)

    @property
    def allocations(self) -> tuple[int, int]:
        """Where the memory of both begins."""
        front = self.memory.alignment_bytes
        return self.send - front, self.recv - front

    @property
    def allocated_bytes(self) -> int:
        """Size of each of the two."""
        return self.memory.alignment_bytes + self._used_bytes + BAND_BYTES

    @property
    def _used_bytes(self) -> int:
        return self.size_bytes + self.unalign * _WIDEST_BYTES

    def release(self) -> None:
        """Give both back."""
        for address in self.allocations:
            self.memory.release(address)

    def warm(self, case: Case, role: Role) -> None:
        """Put well-formed values of the case's type everywhere, so that timing reads no NaN or denormals."""
        # Any values do: a mean that cannot be checked is timed over those of a sum.
        pattern = _pattern(case if checkable(case, role.ranks) else replace(case, op="sum"), 0, role.ranks)
        count = self._used_bytes // case.data_type.size_bytes
        region = core.Region(0, count, 0, Holds.CONTRIBUTION, role.rank)
        self.memory.fill(self.send, pattern, region)
        self.memory.fill(self.recv, pattern, region)


@dataclass(frozen=True)
class Band:
    """BAND_BYTES at ``address``; ``end`` is the field of Strays. The values begin with ``first_index``."""

    end: str
    address: int
    first_index: int


@dataclass(frozen=True)
class CaseBuffers:
    """The part of a buffer pair that one case uses. Slots are ``stride_bytes`` apart in both buffers, as in
    nccl-tests (startColl in common.cu), where each call works on the next slot to defeat caches.

    ``send`` and ``recv`` are the addresses of the two arguments at slot 0: in place, both lie in what is
    otherwise the receive buffer. ``own_parts`` are those of a call in parts (--coalesce), which may lie
    farther apart, each behind ``first_element`` of the whole.
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
    own_parts: tuple[CaseBuffers, ...] = ()
    first_element: int = 0

    @property
    def parts(self) -> tuple[CaseBuffers, ...]:
        """Those of a call in parts, or the whole."""
        return self.own_parts or (self,)

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
        whole = cls(pair, case, shape, role, send, recv, stride if slots > 1 else 0, slots, data)
        parts, first = [], 0
        for part in case.parts if case.coalesce else ():
            own, skipped = cls.of(pair, part, role, overlap, rotate=False, data=data), first * type_bytes
            own = replace(own, send=own.send + skipped, recv=own.recv + skipped, first_element=first)
            parts.append(replace(own, stride_bytes=whole.stride_bytes, slots=slots))
            first += part.requested_bytes // type_bytes
        return replace(whole, own_parts=tuple(parts))

    def load(self, seed: int, slot: int) -> None:
        """Make everything that the call must write wrong in every bit, then write this rank's own data."""
        at, data = slot * self.stride_bytes, self._check_data(seed)
        data.write(self.recv + at, self._receives, inverted=True)
        data.write(self.send + at, self._sends)

    def check(self, seed: int, slot: int) -> CheckOutcome:
        """Compare the slot's receive part, the whole of it, with what the collective must have written."""
        return self._check_data(seed).compared(self.recv + slot * self.stride_bytes, self._receives)

    def check_sums(self, seed: int, slot: int) -> CheckOutcome:
        """Compare the sums of a mean before they are divided. Of exact data."""
        at = slot * self.stride_bytes
        regions = [native_region(region, UNDIVIDED) for region in self._receives]
        return _outcome(self.pair.memory.check(self.recv + at, pattern_of(self, seed), regions))

    def sent_changed(self, seed: int, slot: int) -> int:
        """How many elements of the slot's send part no longer hold what ``load`` put there; 0 where the call
        may write into it.
        """
        if self.is_in_place:
            return 0
        return self._check_data(seed).compared(self.send + slot * self.stride_bytes, self._sends).wrong

    def _check_data(self, seed: int) -> ExactData | HostData:
        if self.data == values.EXACT:
            return ExactData(self.pair.memory, pattern_of(self, seed))
        return HostData(self.pair.memory, self.source(seed))

    @property
    def is_in_place(self) -> bool:
        """Whether what is sent lies in the receive buffer."""
        return 0 <= self.send - self.pair.allocations[1] < self.pair.allocated_bytes

    @property
    def _sends(self) -> tuple[Region, ...]:
        return self.case.row.sends(self.shape, self.role)

    @property
    def _receives(self) -> tuple[Region, ...]:
        return self.case.row.receives(self.shape, self.role)

    # -- bands: what a call has written beside its buffers --

    def guard(self, first_slot: int, last_slot: int) -> None:
        """Write the bands before one slot and behind another."""
        bands = list(self._bands(first_slot, last_slot))
        if bands:
            self.pair.memory.fill(*self._in_bands(bands))

    def strays(self, first_slot: int, last_slot: int) -> Strays:
        """What has been written into these bands."""
        bands = list(self._bands(first_slot, last_slot))
        if not bands:
            return Strays()
        base, pattern, *regions = self._in_bands(bands)
        memory, type_bytes = self.pair.memory, self.case.data_type.size_bytes
        if memory.check(base, pattern, regions).wrong == 0:
            return Strays()
        reached = {}
        for band in bands:
            held = np.empty(BAND_BYTES, np.uint8)
            region = core.Region(0, BAND_BYTES // type_bytes, band.first_index, Holds.CONTRIBUTION, 0)
            core.fill(held.ctypes.data, pattern, region)
            changed = np.flatnonzero(memory.read(band.address, BAND_BYTES) != held)
            if len(changed):
                is_before = band.end.startswith("before")
                reached[band.end] = int(BAND_BYTES - changed[0] if is_before else changed[-1] + 1)
        return Strays(**reached)

    def _bands(self, first_slot: int, last_slot: int) -> Iterator[Band]:
        type_bytes = self.case.data_type.size_bytes
        for name, origin, low, high in self._extents():
            before = low + first_slot * self.stride_bytes - BAND_BYTES
            past = high + last_slot * self.stride_bytes
            own = (2 * self.role.rank + (name == "recv")) << _BAND_SHIFT
            for end, address in ((f"before_{name}", before), (f"past_{name}", past)):
                yield Band(end, address, own + (address + BAND_BYTES - origin) // type_bytes)

    def _extents(self) -> Iterator[tuple[str, int, int, int]]:
        """(buffer, where it begins, first address at slot 0 that the call may touch, and the end of these);
        in place, one for both. A buffer of which nothing is used has none.
        """
        type_bytes = self.case.data_type.size_bytes
        parts = self.parts
        received = [each for part in parts for each in _spans(part.recv, part._receives, type_bytes)]
        sent = [each for part in parts for each in _spans(part.send, part._sends, type_bytes)]
        if self.is_in_place:
            received, sent = received + sent, []
        elif received and self.case.op == "mulsum":  # MPI's products are made in the receive buffer
            received += [(part.recv, part.recv + part.shape.send_count * type_bytes) for part in parts]
        for name, origin, spans in (("recv", self.pair.recv, received), ("send", self.pair.send, sent)):
            if spans:
                yield name, origin, min(low for low, _ in spans), max(high for _, high in spans)

    def _in_bands(self, bands: list[Band]) -> tuple[int, core.Pattern, *tuple[core.Region, ...]]:
        """The arguments of Memory.fill: sums of one rank, which are numbers that timed calls can reduce."""
        dtype, base = self.case.data_type, min(band.address for band in bands)
        count = BAND_BYTES // dtype.size_bytes
        offsets = [(band.address - base) // dtype.size_bytes for band in bands]
        regions = [
            core.Region(offset, count, band.first_index, Holds.CONTRIBUTION, 0)
            for offset, band in zip(offsets, bands, strict=True)
        ]
        return base, core.pattern(_BAND_SEED, 1, dtype.number, 0), *regions

    def own_seed(self, seed: int) -> int:
        """Other data in every group, so that what strays from one into another is found."""
        return (seed + (self.role.group << _GROUP_SHIFT)) % 2**64

    def source(self, seed: int) -> values.Source:
        """What the values of a check depend on."""
        case = self.case
        return values.Source(self.data, self.own_seed(seed), self.role.ranks, case.data_type, case.op)


@dataclass(frozen=True)
class ExactData:
    """Data that are made and compared where the buffers lie."""

    memory: Memory
    pattern: core.Pattern

    def write(self, address: int, regions: Iterable[Region], *, inverted: bool = False) -> None:
        """Fill regions of the buffer at ``address``; with every bit inverted."""
        flags = COMPLEMENT if inverted else 0
        self.memory.fill(address, self.pattern, *(native_region(region, flags) for region in regions))

    def compared(self, address: int, regions: Iterable[Region]) -> CheckOutcome:
        """What the regions hold against what they must."""
        return _outcome(self.memory.check(address, self.pattern, map(native_region, regions)))


@dataclass(frozen=True)
class HostData:
    """Data that are made and compared on the host, piece by piece, wherever the buffers lie."""

    memory: Memory
    source: values.Source

    def write(self, address: int, regions: Iterable[Region], *, inverted: bool = False) -> None:
        for region in pieces(regions):
            bits = values.contents(self.source, region)
            place = address + region.offset * self.source.dtype.size_bytes
            self.memory.write(place, (~bits if inverted else bits).view(np.uint8))

    def compared(self, address: int, regions: Iterable[Region]) -> CheckOutcome:
        wrong, first, digest, type_bytes = 0, -1, 0, self.source.dtype.size_bytes
        for region in pieces(regions):
            held = self.memory.read(address + region.offset * type_bytes, region.count * type_bytes)
            actual = held.view(self.source.unsigned)
            bad = np.flatnonzero(values.wrong_elements(self.source, region, actual))
            if len(bad):
                wrong += len(bad)
                found = region.offset + int(bad[0])
                first = found if first < 0 else min(first, found)
            index = np.arange(region.first_index, region.first_index + region.count, dtype=np.uint64)
            digest += values.digest(index, actual)
        return CheckOutcome(wrong, first, digest % 2**64)


def _outcome(result: core.CheckResult) -> CheckOutcome:
    first = -1 if result.wrong == 0 else result.first_wrong
    return CheckOutcome(result.wrong, first, result.digest)


def _spans(address: int, regions: Iterable[Region], type_bytes: int) -> Iterator[tuple[int, int]]:
    """First address and end of every region that has elements."""
    for region in regions:
        if region.count:
            first = address + region.offset * type_bytes
            yield first, first + region.count * type_bytes


def hint_of_size(fits_bytes: int, *, has_gaps: bool) -> str:
    """What to do where two buffers do not fit, of which two of ``fits_bytes`` would."""
    if has_gaps:
        return "lower the displacements of --counts: buffers reach as far as they do"
    return f"the largest size that fits is -e {fits_bytes // 2**20}M"


def pieces(regions: Iterable[Region]) -> Iterable[Region]:
    """Regions cut so that their values on all ranks fit into memory."""
    for region in regions:
        for start in range(0, region.count, _PIECE_ELEMENTS):
            offset, first_index = region.offset + start, region.first_index + start
            count = min(_PIECE_ELEMENTS, region.count - start)
            yield replace(region, offset=offset, count=count, first_index=first_index)


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
    """Converts to the native struct."""
    return core.Region(region.offset, region.count, region.first_index, region.holds | flags, region.rank)
