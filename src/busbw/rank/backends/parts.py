"""A call's buffers and arguments, of a whole call or of its parallel parts (--coalesce), which lie one after
another in the buffers and begin at once.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from busbw.machine.native import core, nvtx
from busbw.machine.native.core import Call
from busbw.model.case import Case
from busbw.model.collective import Collective, Region, Role, Shape
from busbw.model.plan import Plan
from busbw.model.ranges import CallRange
from busbw.rank.backends import values
from busbw.rank.backends.base import Backend, CheckOutcome, PreparedCase, Strays
from busbw.rank.backends.buffers import BufferPair, CaseBuffers, Uint8Array, native_region, pattern_of

# Parts have data of their own, so that one in another's place is found; above the groups' share of a seed.
_PART_SHIFT = 57
NO_PEER = -1
# Elements of each tensor that a failed check keeps at most: half a MiB of 8-byte ones.
KEPT_ELEMENTS: Final = 65_536


class OnBuffers(Backend):
    """What backends with a pair of buffers have alike. ``_role`` is this rank's in its group, None where it
    sits out.
    """

    pair: BufferPair
    _plan: Plan
    _role: Role | None
    _warm_for: tuple[str, str, str] | None = None

    def _laid_out(self, case: Case) -> CaseBuffers:
        """The case in the buffers, which hold numbers of its type."""
        assert self._role is not None, "a rank that sits out prepares no calls"
        role, plan = self._plan.role(case, self._role), self._plan
        overlap = case.row.in_place[self.name] if case.in_place else None
        kind = (case.collective, case.dtype, case.op)
        if self._warm_for != kind:
            self.pair.warm(case, role)
            self._warm_for = kind
        return CaseBuffers.of(self.pair, case, role, overlap, rotate=plan.rotate, data=plan.data)


class CheckedParts(PreparedCase):
    """What a prepared case leaves to its buffers, or to those of its parts."""

    whole: CaseBuffers

    def load(self, seed: int, slot: int) -> None:
        for number, part in enumerate(self.whole.parts):
            part.load(_seed(seed, number), slot)

    def check(self, seed: int, slot: int) -> CheckOutcome:
        """See PreparedCase; offsets are those of the whole buffer."""
        parts = self.whole.parts
        found = [part.check(_seed(seed, number), slot) for number, part in enumerate(parts)]
        wrong = [
            part.first_element + outcome.first_offset
            for part, outcome in zip(parts, found, strict=True)
            if outcome.wrong
        ]
        digest = sum(outcome.digest for outcome in found) % 2**64
        return CheckOutcome(sum(outcome.wrong for outcome in found), min(wrong, default=-1), digest)

    def guard(self) -> None:
        self.whole.guard(0, self.whole.slots - 1)

    def strays(self) -> Strays:
        return self.whole.strays(0, self.whole.slots - 1)

    def run_checked(self, seed: int, slot: int, issue: Callable[[int], object] | None = None) -> CheckOutcome:
        self.whole.guard(slot, slot)
        (issue or self.run)(slot)
        sent = (part.sent_changed(_seed(seed, at), slot) for at, part in enumerate(self.whole.parts))
        return replace(self.check(seed, slot), sent_changed=sum(sent), strays=self.whole.strays(slot, slot))

    def tensors(self, seed: int, slot: int, first_wrong: int) -> bytes:
        """See PreparedCase; of the part in which the first wrong element lies."""
        number = max(at for at, part in enumerate(self.whole.parts) if part.first_element <= first_wrong)
        part = self.whole.parts[number]
        return saved_tensors(part, _seed(seed, number), slot, first_wrong - part.first_element)


def _seed(seed: int, part: int) -> int:
    return (seed + (part << _PART_SHIFT)) % 2**64


# ---- a call as the native core takes it -------------------------------------------------------------


def native_segments(shape: Shape, role: Role, per_element: int = 1) -> core.Segments:
    """The segments of a call of variable sizes and the peers of a permute. ``per_element`` is how many of the
    library's elements carry one of ours. The arrays live as long as what is returned.
    """
    target, source = (NO_PEER if rank is None else rank for rank in (role.target, role.source))
    segments = core.Segments(target=target, source=source)
    for name in ("send_counts", "send_offsets", "recv_counts", "recv_offsets") if shape.exchange else ():
        counts = getattr(shape.exchange, name)
        if len(counts) == role.ranks:  # what an all_gatherv sends is one segment, an argument of its own
            array = np.array(counts, np.int64) * per_element
            setattr(segments, name, array.ctypes.data)
            segments.arrays = (*segments.arrays, array)
    return segments


def gathered_offset(row: Collective, shape: Shape) -> int:
    """Where the one segment that an all_gatherv sends begins, in elements; 0 for every other call."""
    if shape.exchange is None or row.variable is None or not row.variable.gathered:
        return 0
    return shape.exchange.send_offsets[0]


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
