"""Counts and peers that differ between ranks, as the native core takes them."""

from __future__ import annotations

import numpy as np

from busbw._native import core
from busbw.model.collective import Collective, Role, Shape

NO_PEER = -1


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
    for name, values in rows.items():
        if len(values) != role.ranks:
            continue  # what an all_gatherv sends is one segment, an argument of its own
        array = np.array(values, np.int64) * per_element
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
