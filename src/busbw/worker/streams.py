"""Measure operations at once: how many calls of each make up an iteration, and samples of iterations.

In an iteration all streams begin together, each with its calls back to back, and the next one begins when all
have ended. A stream that has fewer calls than keep it busy leaves the others alone for the rest; how much of
its time each stream had company is kept with every sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.backends.streams import PreparedStep
from busbw.model.plan import Limits, Stream
from busbw.model.result import StopReason
from busbw.model.sample import SampleFlag
from busbw.stats import stopping
from busbw.worker import measure
from busbw.worker.across_ranks import Grouping, across_ranks
from busbw.worker.measure import Conditions, Samples, Taken
from busbw.worker.off_core import CoreClock, flag_lost

MOST_CALIBRATIONS: Final = 3
LEAST_ROUNDS: Final = 3
# Streams begin and end one after the other, a call apart: 5 % of a sample of so many.
EDGE_ITERATIONS: Final = 20
# Calls of a balanced stream that are this far from what the last look shows are corrected.
_DRIFT: Final = 0.1
_NO_OVERLAP: Final = 2.0  # of a rank that has no other stream

Float64Array = npt.NDArray[np.float64]
Calls = tuple[int, ...]


@dataclass(frozen=True)
class Together:
    """What was sampled of one stream of a step; see ``CaseResult.overlap``."""

    samples: Samples
    overlap: float | None


@dataclass(frozen=True)
class _Pace:
    """How long a call of each stream takes beside the others, and what follows from it. ``fixed`` are the
    calls of an iteration, 0 where the stream is balanced; ``repeat`` is how many iterations make up a sample.
    """

    fixed: Calls
    call_ns: Float64Array
    repeat: int = 1

    @property
    def iteration_ns(self) -> float:
        """Of the slowest stream; one call of it where it is balanced."""
        return float(max(ns * max(1, count) for ns, count in zip(self.call_ns, self.fixed, strict=True)))

    def calls(self, iterations: int) -> Calls:
        """Calls of each stream: as given, or as many as take as long as the slowest stream's."""
        time_ns = iterations * self.iteration_ns
        return tuple(
            iterations * count or max(1, round(time_ns / ns))
            for ns, count in zip(self.call_ns, self.fixed, strict=True)
        )

    def timed(self, timing_cost_ns: float, limits: Limits) -> _Pace:
        """With so many iterations a sample that reading time costs no stream too much, and that how the
        streams begin and end is a small part of it, unless that leaves no time for samples.
        """
        repeat = max(
            math.ceil(stopping.calls_per_sample(float(ns), timing_cost_ns) * ns / self.iteration_ns)
            if not count
            else math.ceil(stopping.calls_per_sample(float(ns), timing_cost_ns) / count)
            for ns, count in zip(self.call_ns, self.fixed, strict=True)
        )
        if limits.calls is None or 0 in self.fixed:
            fitting = int(limits.case_seconds * 1e9 / (stopping.FIRST_LOOK * self.iteration_ns))
            repeat = max(repeat, min(EDGE_ITERATIONS, fitting))
        return replace(self, repeat=repeat)


class _Step:
    """A step while it is measured: what the ranks have agreed on, and the samples so far."""

    def __init__(
        self,
        prepared: PreparedStep,
        given: Conditions,
        groupings: Sequence[Grouping | None],
        streams: Sequence[Stream],
    ) -> None:
        self._prepared, self._given, self._groupings = prepared, given, tuple(groupings)
        self._fixed = tuple(stream.calls for stream in streams)
        self.warmup_calls = np.zeros(len(self._fixed), np.int64)
        self.lost_ns = 0
        self.taken: tuple[Taken, ...] = ()
        self.overlap = np.empty((len(self._fixed), 0))

    def paced(self, call_ns: Float64Array) -> _Pace:
        """The pace of calls that take so long."""
        return _Pace(self._fixed, call_ns)

    def agreed(self, calls: Calls) -> _Pace:
        """Run one round untimed; the pace that it shows, on the slowest rank. Collective."""
        self._given.world.barrier()
        looks = self._prepared.time(calls, 0, 1).looks
        slowest = self._given.world.max(np.concatenate([look.elapsed_ns for look in looks]))
        self.warmup_calls += calls
        return self.paced(np.asarray(np.maximum(1.0, slowest / np.array(calls)), np.float64))

    def warm_up(self, limits: Limits) -> _Pace:
        """Untimed iterations, as for one operation alone; each round corrects the pace."""
        least, least_ns = measure.untimed(limits)
        pace = self.agreed(tuple(max(1, count) for count in self._fixed))
        done, spent_ns, rounds = 1, pace.iteration_ns, 1
        fixed = limits.warmup_calls is not None
        while (done < least if fixed else rounds < LEAST_ROUNDS) or spent_ns < least_ns:
            left = max(least - done, math.ceil(least_ns / pace.iteration_ns))
            iterations = max(1, min(left, measure.MOST_CALLS_A_ROUND, 2 ** (rounds + 1)))
            pace = self.agreed(pace.calls(iterations))
            done, spent_ns, rounds = done + iterations, spent_ns + iterations * pace.iteration_ns, rounds + 1
        return pace.timed(self._given.timing_cost_ns, limits)

    def begin(self, pace: _Pace) -> None:
        """Forget what was sampled at another pace: it is warm-up."""
        for number, taken in enumerate(self.taken):
            self.warmup_calls[number] += len(taken.across) * taken.k
        self.taken = tuple(Taken.none(k) for k in pace.calls(pace.repeat))
        self.overlap = np.empty((len(self._fixed), 0))

    def add(self, samples: int, lead: int = 1) -> None:
        """One look more, behind ``lead`` untimed samples. Collective."""
        given = self._given
        given.world.barrier()
        before = CoreClock.now()
        look = self._prepared.time([taken.k for taken in self.taken], lead, samples)
        after = CoreClock.now()
        lost = 0 if given.contended else after.lost_since(before)
        self.lost_ns += lost
        stepped = SampleFlag.CLOCK_STEP if after.stepped_since(before) else 0
        taken = []
        for own, part, grouping in zip(look.looks, self.taken, self._groupings, strict=True):
            flags = np.full(samples, stepped, np.int64)
            if lost and own.took_part:
                flags |= flag_lost(own.elapsed_ns, lost)
            across = across_ranks(own, flags, given.timing.time, given.world, None, grouping)
            taken.append(part.extended(own, across))
        self.taken = tuple(taken)
        smallest = -given.world.max(-np.nan_to_num(look.overlap, nan=_NO_OVERLAP).reshape(-1))
        self.overlap = np.concatenate((self.overlap, smallest.reshape(look.overlap.shape)), axis=1)

    @property
    def samples(self) -> int:
        """How many there are of every stream."""
        return len(self.taken[0].across)

    def seen(self, limits: Limits) -> _Pace:
        """The pace that the samples show."""
        medians = [max(1.0, float(np.median(taken.across.worst)) / taken.k) for taken in self.taken]
        return self.paced(np.array(medians)).timed(self._given.timing_cost_ns, limits)

    @property
    def spent_s(self) -> float:
        """What sampling took, by the slowest stream of each sample."""
        return float(np.max([taken.across.worst for taken in self.taken], axis=0).sum()) / 1e9

    def results(self, stops: Sequence[StopReason], limits: Limits, first_ns: Float64Array) -> list[Together]:
        """What the ranks know of every stream."""
        found = []
        for number, taken in enumerate(self.taken):
            samples = Samples(
                taken,
                int(self.warmup_calls[number]),
                float(first_ns[number]),
                stops[number],
                settling=measure.settling(taken.times_ns, limits) if limits.calls is None else 0,
                lost_ns=self.lost_ns,
            )
            kept = self.overlap[number, taken.kept[samples.settling :]]
            shared = kept[kept <= 1.0]
            found.append(Together(samples, float(np.median(shared)) if len(shared) else None))
        return found


def measure_together(
    prepared: PreparedStep,
    given: Conditions,
    groupings: Sequence[Grouping | None],
    streams: Sequence[Stream],
    limits: Limits,
    first_ns: Float64Array,
) -> list[Together]:
    """Time one step. Collective over the world; ``first_ns`` is of each stream's first call, cold."""
    step = _Step(prepared, given, groupings, streams)
    if limits.outer_iters:
        return _repeated(step, given, limits, first_ns)
    pace = step.warm_up(limits)
    wanted = _start(step, pace, limits)
    for _ in range(MOST_CALIBRATIONS):
        _take(step, wanted, given)
        better = step.seen(limits)
        if not _is_other(pace, better):
            break
        pace = better
        wanted = _start(step, pace, limits)
    while True:
        _take(step, wanted, given)
        judged = [
            stopping.judge_look(taken.times_ns, len(taken.across), step.spent_s, limits).stop
            for taken in step.taken
        ]
        stops = [stop for stop in judged if stop is not None]
        if len(stops) == len(judged):
            return step.results(stops, limits, first_ns)
        wanted = min(stopping.next_look(step.samples), max(limits.max_samples, step.samples + 1))


def first_calls_ns(prepared: PreparedStep, given: Conditions, streams: Sequence[Stream]) -> Float64Array:
    """Nanoseconds of each stream's first call, beside the others' first calls, cold. Collective."""
    step = _Step(prepared, given, (None,) * len(streams), streams)
    return step.agreed((1,) * len(streams)).call_ns


def _start(step: _Step, pace: _Pace, limits: Limits) -> int:
    """How many samples the first look at this pace has."""
    if limits.calls is not None:
        samples, repeat = stopping.fixed_samples(limits.calls, pace.repeat)
        step.begin(replace(pace, repeat=repeat))
        return samples
    step.begin(pace)
    fitting = int(limits.case_seconds * 1e9 / (pace.repeat * pace.iteration_ns))
    return max(1, min(stopping.next_look(0), fitting))


def _take(step: _Step, wanted: int, given: Conditions) -> None:
    while step.samples < wanted:
        step.add(min(wanted - step.samples, given.max_samples_per_look))


def _is_other(pace: _Pace, better: _Pace) -> bool:
    """Whether samples at the old pace would be of too few calls, or of streams out of balance."""
    drifted = any(
        abs(now - before) > max(1, _DRIFT * before)
        for before, now in zip(pace.calls(pace.repeat), better.calls(pace.repeat), strict=True)
    )
    return drifted or better.repeat > 2 * pace.repeat


def _repeated(step: _Step, given: Conditions, limits: Limits, first_ns: Float64Array) -> list[Together]:
    """Two-level iterations, as ``worker.outer`` has them of one operation."""
    assert limits.calls, "the plan has -n with repetitions"
    timed, untimed = limits.calls, limits.warmup_calls or 0
    pace = step.paced(first_ns)
    for _ in range(limits.outer_warmup_iters):
        pace = step.agreed(pace.calls(timed + untimed))
    fitting = min(pace.timed(given.timing_cost_ns, limits).repeat, max(1, timed // stopping.FIRST_LOOK))
    pace = replace(pace, repeat=max(n for n in range(1, fitting + 1) if timed % n == 0))
    step.begin(pace)
    for repetition in range(1, limits.outer_iters + 1):
        if untimed:
            step.agreed(pace.calls(untimed))
        samples = repetition * timed // pace.repeat
        while step.samples < samples:
            step.add(min(samples - step.samples, given.max_samples_per_look), lead=0)
    return step.results([StopReason.CALLS] * len(step.taken), limits, first_ns)
