"""A call's buffers and arguments, of a whole call or of its parallel parts (--coalesce), which lie one after
another in the buffers and begin at once.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from busbw.machine.native import core, nvtx
from busbw.machine.native.core import Call
from busbw.model.case import Case
from busbw.model.collective import Collective, InPlace, Region, Role, Shape
from busbw.model.ranges import CallRange
from busbw.rank.backends import values
from busbw.rank.backends.base import CheckOutcome, PreparedCase, Strays
from busbw.rank.backends.buffers import BufferPair, CaseBuffers, Uint8Array, native_region, pattern_of

# Parts have data of their own, so that one in another's place is found; above the groups' share of a seed.
_PART_SHIFT = 57
NO_PEER = -1
# Elements of each tensor that a failed check keeps at most: half a MiB of 8-byte ones.
KEPT_ELEMENTS: Final = 65_536


@dataclass(frozen=True)
class PartedBuffers:
    """The buffers of the parts of a ``case``; of a whole call, one part. ``first_elements`` are where parts
    begin, ``whole`` is where all of them lie.
    """

    case: Case
    whole: CaseBuffers
    parts: tuple[CaseBuffers, ...]
    first_elements: tuple[int, ...]

    @classmethod
    def of(
        cls, pair: BufferPair, case: Case, role: Role, overlap: InPlace | None, *, rotate: bool, data: str
    ) -> PartedBuffers:
        """Lay the case out in the pair; see CaseBuffers.of."""
        whole = CaseBuffers.of(pair, case, role, overlap, rotate=rotate, data=data)
        if not case.coalesce:
            return cls(case, whole, (whole,), (0,))
        parts, firsts, first = [], [], 0
        type_bytes = case.data_type.size_bytes
        for part in case.parts:
            laid_out = CaseBuffers.of(pair, part, role, overlap, rotate=False, data=data)
            skipped = first * type_bytes
            parts.append(
                replace(
                    laid_out,
                    send=laid_out.send + skipped,
                    recv=laid_out.recv + skipped,
                    stride_bytes=whole.stride_bytes,
                    slots=whole.slots,
                )
            )
            firsts.append(first)
            first += part.requested_bytes // type_bytes
        return cls(case, replace(whole, parts=tuple(parts)), tuple(parts), tuple(firsts))


class CheckedParts(PreparedCase):
    """What a prepared case leaves to its buffers."""

    _parts: PartedBuffers

    def load(self, seed: int, slot: int) -> None:
        for number, part in enumerate(self._parts.parts):
            part.load(_seed(seed, number), slot)

    def check(self, seed: int, slot: int) -> CheckOutcome:
        """See PreparedCase; offsets are those of the whole buffer."""
        parts = self._parts
        found = [part.check(_seed(seed, number), slot) for number, part in enumerate(parts.parts)]
        wrong = [
            first + outcome.first_offset
            for first, outcome in zip(parts.first_elements, found, strict=True)
            if outcome.wrong
        ]
        digest = sum(outcome.digest for outcome in found) % 2**64
        return CheckOutcome(sum(outcome.wrong for outcome in found), min(wrong, default=-1), digest)

    def guard(self) -> None:
        self._parts.whole.guard(0, self._parts.whole.slots - 1)

    def strays(self) -> Strays:
        return self._parts.whole.strays(0, self._parts.whole.slots - 1)

    def run_checked(self, seed: int, slot: int, issue: Callable[[int], object] | None = None) -> CheckOutcome:
        whole = self._parts.whole
        whole.guard(slot, slot)
        (issue or self.run)(slot)
        sent = (part.sent_changed(_seed(seed, at), slot) for at, part in enumerate(self._parts.parts))
        return replace(self.check(seed, slot), sent_changed=sum(sent), strays=whole.strays(slot, slot))

    def tensors(self, seed: int, slot: int, first_wrong: int) -> bytes:
        """See PreparedCase; of the part in which the first wrong element lies."""
        firsts = self._parts.first_elements
        number = max(at for at, first in enumerate(firsts) if first <= first_wrong)
        part = self._parts.parts[number]
        return saved_tensors(part, _seed(seed, number), slot, first_wrong - firsts[number])


def _seed(seed: int, part: int) -> int:
    return (seed + (part << _PART_SHIFT)) % 2**64


# ---- a call as the native core takes it -------------------------------------------------------------


def native_segments(shape: Shape, role: Role, per_element: int = 1) -> core.Segments:
    """The segments of a call of variable sizes and the peers of a permute. ``per_element`` is how many of the
    library's elements carry one of ours. The arrays live as long as what is returned.
    """
    exchange = shape.exchange
    segments = core.Segments(target=_peer(role.target), source=_peer(role.source))
    if exchange is None:
        return segments
    rows = {
        "send_counts": exchange.send_counts,
        "send_offsets": exchange.send_offsets,
        "recv_counts": exchange.recv_counts,
        "recv_offsets": exchange.recv_offsets,
    }
    arrays = []
    for name, counts in rows.items():
        if len(counts) != role.ranks:
            continue  # what an all_gatherv sends is one segment, an argument of its own
        array = np.array(counts, np.int64) * per_element
        setattr(segments, name, array.ctypes.data)
        arrays.append(array)
    segments.arrays = tuple(arrays)
    return segments


def gathered_offset(row: Collective, shape: Shape) -> int:
    """Where the one segment that an all_gatherv sends begins, in elements; 0 for every other call."""
    if shape.exchange is None or row.variable is None or not row.variable.gathered:
        return 0
    return shape.exchange.send_offsets[0]


def _peer(rank: int | None) -> int:
    return NO_PEER if rank is None else rank


def ranged(call: Call, case: Case, calls: int = 1, *, graph: bool = False) -> Call:
    """The call within a range that says what it does, where a profiler is attached. Takes the call over."""
    return nvtx.ranged(call, str(CallRange.of(case, calls, graph=graph)), case.size_bytes)


# ---- what a failed check leaves to look at ----------------------------------------------------------


def saved_tensors(buffers: CaseBuffers, seed: int, slot: int, first_wrong: int) -> bytes:
    """A NumPy archive (.npz) with ``sent``, ``received`` and ``expected`` as unsigned integers as wide as an
    element, KEPT_ELEMENTS of each from ``start`` (elements into the buffers) on, and what they are of.
    """
    case, role, shape = buffers.case, buffers.role, buffers.shape
    start = max(0, first_wrong - KEPT_ELEMENTS // 2)
    at = slot * buffers.stride_bytes + start * case.data_type.size_bytes
    received = max(0, min(KEPT_ELEMENTS, shape.recv_count - start))
    sent = max(0, min(KEPT_ELEMENTS, shape.send_count - start))
    word = buffers.source(seed).unsigned
    archive = io.BytesIO()
    np.savez_compressed(
        archive,
        sent=_made(buffers, seed, case.row.sends(shape, role), start, sent).view(word),
        received=buffers.pair.memory.read(buffers.recv + at, received * case.data_type.size_bytes).view(word),
        expected=_made(buffers, seed, case.row.receives(shape, role), start, received).view(word),
        start=start,
        first_wrong=first_wrong,
        seed=seed,
        group=role.group,
        rank_in_group=role.rank,
        dtype=case.dtype,
        case=f"{case.collective} {case.op or 'none'} {case.size_bytes} B {case.placement.value}",
    )
    return archive.getvalue()


def _made(buffers: CaseBuffers, seed: int, regions: Iterable[Region], start: int, count: int) -> Uint8Array:
    """The bytes that the regions hold of ``count`` elements from ``start`` on; zero between regions."""
    type_bytes = buffers.case.data_type.size_bytes
    out = np.zeros(count * type_bytes, np.uint8)
    for region in _within(regions, start, count):
        if buffers.data == values.EXACT:
            core.fill(out.ctypes.data, pattern_of(buffers, seed), native_region(region))
        else:
            place = slice(region.offset * type_bytes, (region.offset + region.count) * type_bytes)
            out[place] = values.contents(buffers.source(seed), region).view(np.uint8)
    return out


def _within(regions: Iterable[Region], start: int, count: int) -> Iterator[Region]:
    """The parts of regions between ``start`` and ``start + count``, with offsets from ``start``."""
    for region in regions:
        low, high = max(region.offset, start), min(region.offset + region.count, start + count)
        if low < high:
            skipped = low - region.offset
            first_index = region.first_index + skipped
            yield replace(region, offset=low - start, count=high - low, first_index=first_index)
