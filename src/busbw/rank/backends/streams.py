"""Operations at once: a backend for each, so that every stream has a communicator, buffers and, on a GPU, a
CUDA stream of its own. What is joined is the timing alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from busbw.model.case import Case
from busbw.model.choice import Choice
from busbw.rank.backends.base import Backend, DeviceState, Identity, IdleCase, Look, PreparedCase
from busbw.stats.interval import Float64Array

if TYPE_CHECKING:
    from busbw.machine.native.core import Rounds
    from busbw.rank.world.base import World


class PreparedStep:
    """One case of every stream, ready to be issued at once on this rank, which may sit out of some."""

    def __init__(self, backends: Sequence[Backend], cases: Sequence[Case]) -> None:
        self.parts = tuple(backend.prepare(case) for backend, case in zip(backends, cases, strict=True))
        self._present = [number for number, own in enumerate(self.parts) if not isinstance(own, IdleCase)]
        self._backend = backends[self._present[0] if self._present else 0]

    def run(self, slot: int) -> None:
        """One call of every stream, untimed."""
        self._rounds([1] * len(self.parts), slot, 0, 1)

    def time(self, calls: Sequence[int], lead: int, samples: int) -> tuple[list[Look], Float64Array]:
        """Time rounds of so many calls of each stream, behind ``lead`` untimed rounds; the samples of each,
        and their ``overlaps`` [stream, sample]. All streams of a round begin together; the next one begins
        when all have ended. A stream without calls takes no part, and the others have no time with it.
        """
        idle = IdleCase().time(0, samples, 1)
        looks = [idle] * len(self.parts)
        overlap = np.full((len(self.parts), samples), np.nan)
        if rounds := self._rounds(calls, 0, lead, samples):
            elapsed = rounds.end_ns - rounds.begin_ns
            active = self._active(calls)
            for lane, number in enumerate(active):
                looks[number] = Look(elapsed[lane], rounds.issue_ns[lane])
            if len(self._present) > 1:
                overlap[active] = overlaps(rounds) if len(active) == len(self._present) else 0.0
        return looks, overlap

    def close(self) -> None:
        """Give back what prepare took."""
        for own in self.parts:
            own.close()

    def _rounds(self, calls: Sequence[int], slot: int, lead: int, samples: int) -> Rounds | None:
        active = self._active(calls)
        if not active:
            return None
        prepared = [self.parts[number] for number in active]
        return self._backend.together(prepared, [calls[n] for n in active], slot, lead, samples)

    def _active(self, calls: Sequence[int]) -> list[int]:
        return [number for number in self._present if calls[number]]


def overlaps(rounds: Rounds) -> Float64Array:
    """[stream, round]: the share of a stream's time in which all streams were under way, 0 to 1."""
    common = rounds.end_ns.min(axis=0) - rounds.begin_ns.max(axis=0)
    own = rounds.end_ns - rounds.begin_ns
    return np.asarray(np.clip(common, 0, None) / np.maximum(own, 1), np.float64)


class StreamsBackend(Backend):
    """See Backend; ``prepare_step`` makes ready what runs at once."""

    def __init__(self, backends: Sequence[Backend]) -> None:
        self._backends = tuple(backends)
        self.name = backends[0].name
        # A round of a GPU takes two events of a stream, a sample of one operation takes one.
        self.max_samples_per_look = min(backend.max_samples_per_look for backend in backends) // 2
        self.identity: Identity = backends[0].identity
        self.timing_cost_ns = 0.0

    def connect(self, world: World) -> None:
        """Make a communicator for each stream, one after the other. Collective over the world."""
        for backend in self._backends:
            backend.connect(world)
        first = self._backends[0].identity
        self.identity = replace(first, facts={**first.facts, "streams": len(self._backends)})
        self.timing_cost_ns = max(backend.timing_cost_ns for backend in self._backends)

    def prepare(self, case: Case) -> PreparedCase:
        return self._backends[case.stream].prepare(case)

    def prepare_step(self, cases: Sequence[Case]) -> PreparedStep:
        """One case of every stream, in their order."""
        return PreparedStep(self._backends, cases)

    def inapplicable(self, case: Case) -> str:
        return self._backends[case.stream].inapplicable(case)

    def conditions(self, case: Case) -> tuple[str, ...]:
        return self._backends[case.stream].conditions(case)

    def choice(self, case: Case, prepared: PreparedCase) -> Choice | None:
        """See Backend; of the stream's call by itself."""
        return self._backends[case.stream].choice(case, prepared)

    def device_state(self) -> DeviceState | None:
        """See Backend; the streams share the device."""
        return self._backends[0].device_state()

    def memory_report(self) -> dict[str, int]:
        """See Backend; of all streams together."""
        reports = [backend.memory_report() for backend in self._backends]
        return {use: sum(report[use] for report in reports) for use in reports[0]}

    def close(self) -> None:
        for backend in self._backends:
            backend.close()
