"""An operation beside a case on purpose (--beside alltoall): on the same ranks or on others, always on a
communicator and buffers of its own.

On the same ranks both begin each sample together, and the neighbour has so many calls that it ends last. On
other ranks its calls in a look take longer than the case's.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import numpy as np

from busbw.model.case import Case
from busbw.rank.backends.base import Backend, IdleCase, Int64Array, Look, PreparedCase, WithoutData
from busbw.rank.backends.streams import overlaps
from busbw.units import first_of, format_size

if TYPE_CHECKING:
    from busbw.model.neighbour import Neighbour
    from busbw.rank.world.base import World

# The neighbour's calls take so much longer than the case's: no sample ends without company.
MARGIN: Final = 1.2


class OperationBeside:
    """On this rank, of which ``backend`` is the neighbour's own."""

    unit = ""

    def __init__(self, neighbour: Neighbour, backend: Backend, world: World) -> None:
        self._neighbour, self._backend, self._world = neighbour, backend, world
        self._theirs: PreparedCase | None = None
        self._call_ns: tuple[float, float] | None = None
        self._covered = 0.0

    def connect(self) -> None:
        """Make its communicator. Collective over the world."""
        self._backend.connect(self._world)

    def close(self) -> None:
        """Give its communicator and buffers back."""
        self._backend.close()

    @property
    def how(self) -> str:
        """What it is, and where."""
        ranks, size_bytes = self._neighbour.ranks, self._neighbour.size_bytes
        where = f"ranks {first_of(map(str, ranks), 4)}" if ranks else "the same ranks"
        size = format_size(size_bytes) if size_bytes else "the case's size"
        return f"{self._neighbour.what} of {size} on {where}"

    @contextmanager
    def ready(self, case: Case) -> Iterator[None]:
        """While a case is measured."""
        self._theirs, self._call_ns = self._backend.prepare(self._neighbour.operation_beside(case)), None
        try:
            yield
        finally:
            self._theirs.close()

    def by_itself(self, seconds: float) -> float:
        raise NotImplementedError("what it gets done is not counted")

    def beside(self, prepared: PreparedCase, take: Callable[[PreparedCase], object]) -> float:
        """``take`` the case with its calls beside it; the share of its time in which they were under way."""
        assert self._theirs is not None, "ready for the case"
        take(Accompanied(prepared, self._theirs, self))
        return self._covered

    def calls(self, own: int) -> int:
        """How many of its calls last longer than so many of the case; the same on all ranks."""
        own_ns, their_ns = self._call_ns or (1.0, MARGIN)
        return max(1, math.ceil(MARGIN * own * own_ns / their_ns))

    def learn(self, call_ns: tuple[float, float], span_ns: tuple[float, float]) -> None:
        """How long a call took on this rank, the case's and the neighbour's, and all of them; 0 where it has
        no part. Collective.
        """
        own, their, own_span, their_span = self._world.max(np.array([*call_ns, *span_ns])).tolist()
        self._call_ns = max(1.0, own), max(1.0, their)
        self._covered = min(1.0, their_span / max(1.0, own_span))


class AtOnce(WithoutData):
    """A case that is issued as it is beside others on its ranks, so that only these make the difference."""

    def __init__(self, own: PreparedCase, backend: Backend) -> None:
        self.own, self.backend = own, backend
        self.slots, self.max_calls = own.slots, own.max_calls
        self.calls_per_issue = own.calls_per_issue

    def time(self, lead: int, samples: int, k: int) -> Look:
        rounds = self.backend.together([self.own], [k], 0, math.ceil(lead / k), samples)
        return Look((rounds.end_ns - rounds.begin_ns)[0], rounds.issue_ns[0])


class Accompanied(WithoutData):
    """A case with the neighbour's calls beside it; on this rank, one of the two may be idle."""

    def __init__(self, own: PreparedCase, theirs: PreparedCase, operation: OperationBeside) -> None:
        self._own, self._theirs, self._operation = own, theirs, operation
        self.slots, self.max_calls = own.slots, own.max_calls
        self.calls_per_issue = own.calls_per_issue

    def time(self, lead: int, samples: int, k: int) -> Look:
        """See PreparedCase. Collective over the world."""
        if isinstance(self._own, AtOnce):
            return self._at_once(self._own, lead, samples, k)
        return self._apart(lead + samples * k, lambda: self._own.time(lead, samples, k))

    def time_isolated(self, samples: int, delay_ns: Int64Array | None, *, barrier: bool) -> Look:
        """See PreparedCase. Collective over the world."""
        return self._apart(samples, lambda: self._own.time_isolated(samples, delay_ns, barrier=barrier))

    def _at_once(self, own: AtOnce, lead: int, samples: int, k: int) -> Look:
        theirs = self._operation.calls(k)
        both = [own.own, self._theirs]
        rounds = own.backend.together(both, [k, theirs], 0, math.ceil(lead / k), samples)
        elapsed = rounds.end_ns - rounds.begin_ns
        each_ns = np.median(elapsed, axis=1)
        covered = float(np.median(overlaps(rounds)[0]))
        self._operation.learn((each_ns[0] / k, each_ns[1] / theirs), (each_ns[0], each_ns[0] * covered))
        return Look(elapsed[0], rounds.issue_ns[0])

    def _apart(self, calls: int, take: Callable[[], Look]) -> Look:
        """The case's calls on its ranks, the neighbour's on others."""
        began_ns, theirs = time.monotonic_ns(), self._operation.calls(calls)
        is_theirs = not isinstance(self._theirs, IdleCase)
        if is_theirs:
            self._theirs.time(0, 1, theirs)
        look = take()
        span_ns = time.monotonic_ns() - began_ns
        own_ns, their_ns = float(span_ns * look.took_part), float(span_ns * is_theirs)
        self._operation.learn((own_ns / calls, their_ns / theirs), (own_ns, their_ns))
        return look
