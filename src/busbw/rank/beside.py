"""Measure a case alone and beside neighbours, in turn: rounds of short looks, each look under one condition.

What drifts between rounds drifts for all looks of a round, so the ratios are of one round each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from busbw.model.neighbour import Beside, Factor, Neighbour
from busbw.model.plan import Limits
from busbw.model.progress import Phase
from busbw.model.result import StopReason
from busbw.rank import progress
from busbw.rank.backends.base import DeviceState, PreparedCase
from busbw.rank.delays import latest_ns
from busbw.rank.measure import Conditions, Samples, Sampling, Taken, first_look, warm_up
from busbw.stats import stopping
from busbw.stats.interval import Estimate, Float64Array
from busbw.stats.ratio import over_rounds, p99_ratio

if TYPE_CHECKING:
    from busbw.rank.backends.load import Load
    from busbw.rank.backends.operation import OperationBeside

    # On this rank. ``how`` says what it is; ``unit`` is what its work is counted in, empty where it is not.
    Company = Load | OperationBeside

# A look takes this part of a case's time. The least rounds are as many as an interval takes.
LOOKS: Final = 32
MOST_ROUNDS: Final = 16
LEAST_ROUNDS: Final = stopping.FIRST_LOOK
MOST_CASE_TIMES: Final = 16  # of calls that are so slow that the least rounds do not fit


@dataclass
class _Seen:
    """A number for each round, on this rank but for the times."""

    times_ns: list[float] = field(default_factory=list)
    samples_ns: list[Float64Array] = field(default_factory=list)
    by_itself: list[float] = field(default_factory=list)
    work: list[float] = field(default_factory=list)
    clocks: list[int] = field(default_factory=list)

    @property
    def medians_ns(self) -> Float64Array:
        return np.array([np.median(own) for own in self.samples_ns])

    def longer_than(self, alone: _Seen) -> Float64Array:
        """How many times as long a call takes, in each round."""
        found: Float64Array = np.array(self.times_ns) / np.array(alone.times_ns)
        return found


@dataclass
class _Rounds:
    """A case while it is measured; ``restart`` comes first."""

    _prepared: PreparedCase
    _given: Conditions
    _neighbours: Sequence[Company]
    _clock: Callable[[], DeviceState | None]
    _call_ns: float
    lost_ns: int = 0

    def restart(self, k: int) -> None:
        """Forget what was seen."""
        self.alone = Taken.none(k)
        self.spent_ns = 0.0
        self.seen = [_Seen() for _ in range(1 + len(self._neighbours))]

    @property
    def count(self) -> int:
        """Rounds so far."""
        return len(self.seen[0].times_ns)

    @property
    def ratios(self) -> list[Estimate]:
        """Of each neighbour: how many times as long a call takes."""
        return [over_rounds(each.longer_than(self.seen[0])) for each in self.seen[1:]]

    def add(self, samples: int, look_s: float) -> None:
        """One round more; every second one backwards. Collective."""
        places = range(len(self.seen))
        for place in reversed(places) if self.count % 2 else places:
            if place:
                self._beside(place, samples, look_s)
            else:
                self.alone = self._look(self.seen[0], samples, self._prepared, self.alone)

    def _beside(self, place: int, samples: int, look_s: float) -> None:
        neighbour, seen = self._neighbours[place - 1], self.seen[place]
        seen.work.append(
            neighbour.beside(self._prepared, lambda prepared: self._look(seen, samples, prepared))
        )
        # Behind the look, for the ranks rest meanwhile: by turns a look alone or one beside comes next.
        self._given.world.barrier()
        seen.by_itself.append(neighbour.by_itself(look_s) if neighbour.unit else 0.0)
        self.spent_ns += look_s * 1e9 if neighbour.unit else 0.0

    def _look(self, seen: _Seen, samples: int, prepared: PreparedCase, taken: Taken | None = None) -> Taken:
        self._given.world.barrier()
        before = taken if taken is not None else Taken.none(self.alone.k)
        sampling = Sampling(prepared, self._given, self._call_ns, len(before.across))
        found = sampling.add(before, samples)
        device = self._clock()
        seen.clocks.append(0 if device is None else device.clock_mhz)
        own = found.across.headline[-samples:]
        # Not the median: a neighbour that takes turns on a core or multiprocessor hits few samples hard.
        seen.times_ns.append(max(1.0, float(own.mean())) / found.k)
        seen.samples_ns.append(np.maximum(1, own) / found.k)
        self.spent_ns += float(found.across.worst[-samples:].sum())
        self.lost_ns += 0 if taken is None else sampling.lost_ns
        return found

    def results(self, asked: Sequence[Neighbour]) -> tuple[Beside, ...]:
        """What all ranks saw. Collective."""
        world = self._given.world
        work = world.sum(np.array([[each.by_itself, each.work] for each in self.seen[1:]])) / world.size
        clocks = -world.max(np.array([-round(float(np.median(each.clocks))) for each in self.seen], np.int64))
        return tuple(
            self._beside_of(neighbour.text, place, work[place - 1], clocks[[0, place]].tolist())
            for place, neighbour in enumerate(asked, start=1)
        )

    def _beside_of(self, what: str, place: int, both: Float64Array, clocks_mhz: list[int]) -> Beside:
        """``both`` is its work by itself and beside the case, in each round."""
        by_itself, work = both
        company, alone, seen = self._neighbours[place - 1], self.seen[0], self.seen[place]
        longer = seen.longer_than(alone)
        typical = seen.medians_ns / alone.medians_ns
        left = work / by_itself if company.unit and by_itself.min() > 0 else None
        p99 = p99_ratio(seen.samples_ns, alone.samples_ns) if self.alone.k == 1 else ()
        return Beside(
            what=what,
            how=company.how,
            alone_ns=tuple(alone.times_ns),
            beside_ns=tuple(seen.times_ns),
            mean=_factor(longer),
            median=_factor(typical),
            p99=Factor(*p99) if p99 else None,
            left=None if left is None else _factor(left),
            sum=None if left is None else _factor(1 / longer + left),
            work_alone=tuple(by_itself.tolist()) if company.unit else (),
            work_beside=tuple(work.tolist()),
            unit=company.unit,
            clocks_mhz=tuple(clocks_mhz) if clocks_mhz[0] else (),
        )


def _factor(ratios: Float64Array) -> Factor:
    found = over_rounds(ratios)
    return Factor(found.median, found.low, found.high) if found.attained else Factor(found.median)


def measure_beside(
    prepared: PreparedCase,
    given: Conditions,
    limits: Limits,
    *,
    asked: Sequence[Neighbour],
    neighbours: Sequence[Company],
    clock: Callable[[], DeviceState | None],
) -> Samples:
    """Time one case alone and beside each neighbour; the samples are those alone. Collective over the world.

    The first round shows the pace and is warm-up.
    """
    pace = warm_up(prepared, given, limits)
    samples, k = first_look(limits, pace, given, prepared)
    progress.phase(Phase.TIMING, k * pace.call_ns / 1e9)
    rounds = _Rounds(prepared, given, neighbours, clock, pace.call_ns)
    rounds.restart(k)
    look_s = limits.case_seconds / LOOKS
    rounds.add(samples, look_s)
    call_ns = rounds.seen[0].times_ns[0]
    warmup_calls = pace.warmup_calls + samples * k
    rounds.restart(k)
    samples = max(1, min(int(look_s * 1e9 / (k * call_ns)), given.max_samples_per_look))
    stop: StopReason | None = None
    while stop is None:
        rounds.add(samples, look_s)
        stop = _enough(rounds, limits)
    latest, found = latest_ns(given.timing, pace.call_ns), rounds.results(asked)
    own = {"lost_ns": rounds.lost_ns, "latest_ns": latest, "call_ns": call_ns, "neighbours": found}
    return Samples.of_pass(rounds.alone, warmup_calls, stop, **own)


def _enough(rounds: _Rounds, limits: Limits) -> StopReason | None:
    """Why no round more is needed, by numbers that all ranks share; looks are geometric, see ``stopping``."""
    if rounds.count < LEAST_ROUNDS:
        is_slow = rounds.spent_ns > MOST_CASE_TIMES * limits.case_seconds * 1e9
        return StopReason.CASE_TIME if is_slow else None
    if rounds.count < MOST_ROUNDS and rounds.count != stopping.next_look(rounds.count - 1):
        return None
    if all(each.half_width <= limits.precision for each in rounds.ratios):
        return StopReason.PRECISION
    return StopReason.CASE_TIME if rounds.count >= MOST_ROUNDS else None
