"""What a failed check leaves to look at: sent, received and expected elements around the first wrong one."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from busbw._native import core
from busbw.backends import values
from busbw.backends.buffers import CaseBuffers, Uint8Array, native_region, pattern_of
from busbw.model.collective import Region

# At most so many elements of each tensor: half a MiB of 8-byte ones.
KEPT_ELEMENTS: Final = 65_536


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
