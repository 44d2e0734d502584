"""Rank 0's bookkeeping of collective calls: contributions in, outcomes out. Pure: no socket, no clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from busbw.world.wire import Op

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

# Little-endian on the wire.
_REDUCTIONS: dict[Op, tuple[np.ufunc, DTypeLike]] = {
    Op.MAX_FLOAT64: (np.maximum, "<f8"),
    Op.MAX_INT64: (np.maximum, "<i8"),
    Op.SUM_FLOAT64: (np.add, "<f8"),
    Op.SUM_INT64: (np.add, "<i8"),
}


class OutOfStep(Exception):
    """Two ranks are in different calls, which is a programming error; ``rank`` is the one that differs."""

    def __init__(self, rank: int, message: str) -> None:
        super().__init__(message)
        self.rank = rank


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished call: ``body`` for every rank, or ``parts`` (a gather, in rank order) for rank 0 alone."""

    op: Op
    call: int
    body: bytes = b""
    parts: tuple[bytes, ...] | None = None


@dataclass
class _Round:
    op: Op
    parts: dict[int, bytes] = field(default_factory=dict)


class Hub:
    """Collects one contribution per rank and call. Ranks may be a gather ahead of each other, never out of
    order.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._rounds: dict[int, _Round] = {}
        self._last_finished = 0

    def contribute(self, rank: int, op: Op, call: int, body: bytes) -> Outcome | None:
        """Add a contribution; the outcome if it was the last one missing. Raises ``OutOfStep``."""
        if call <= self._last_finished:
            raise OutOfStep(rank, f"called {op.name} as call {call}, which the other ranks have finished")
        round_ = self._rounds.setdefault(call, _Round(op))
        if round_.op is not op:
            raise OutOfStep(rank, f"called {op.name} where other ranks called {round_.op.name} (call {call})")
        if op in _REDUCTIONS and round_.parts and len(body) != len(next(iter(round_.parts.values()))):
            raise OutOfStep(
                rank, f"gave {op.name} {len(body)} bytes, other ranks another number (call {call})"
            )
        round_.parts[rank] = body
        # A broadcast needs its root only.
        if op is not Op.BROADCAST and len(round_.parts) < self._size:
            return None
        del self._rounds[call]
        self._last_finished = call
        return _outcome(op, call, round_.parts)


def _outcome(op: Op, call: int, parts: dict[int, bytes]) -> Outcome:
    if op is Op.BROADCAST:
        return Outcome(op, call, parts[0])
    if op is Op.GATHER:
        return Outcome(op, call, parts=tuple(parts[rank] for rank in sorted(parts)))
    if op is Op.BARRIER:
        return Outcome(op, call)
    # Rank order, whatever the order of arrival: a sum of doubles repeats to the last bit.
    ufunc, dtype = _REDUCTIONS[op]
    rows: NDArray[np.generic] = np.stack([np.frombuffer(parts[rank], dtype=dtype) for rank in sorted(parts)])
    return Outcome(op, call, ufunc.reduce(rows, axis=0).tobytes())
