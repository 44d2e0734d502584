"""Measure operations at once: how many calls of each make up an iteration, and samples of iterations.

In an iteration all streams begin together, each with its calls back to back, and the next one begins when all
have ended. A stream that has fewer calls than keep it busy leaves the others alone for the rest; how much of
its time each stream had company is kept with every sample.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from busbw.model.plan import Limits, Stream
from busbw.model.result import StopReason
from busbw.model.sample import SampleFlag
from busbw.rank import measure
from busbw.rank.backends.streams import PreparedStep
from busbw.rank.descheduled import CoreClock, flag_lost
from busbw.rank.measure import Conditions, Samples, Taken
from busbw.rank.reduce_samples import across_ranks
from busbw.stats import stopping
from busbw.stats.interval import Float64Array

MOST_CALIBRATIONS: Final = 3
LEAST_ROUNDS: Final = 3
# Streams begin and end one after the other, a call apart: 5 % of a sample of so many.
EDGE_ITERATIONS: Final = 20
# Calls of a balanced stream that are this far from what the last look shows are corrected.
_DRIFT: Final = 0.1
_NO_OVERLAP: Final = 2.0  # of a rank that has no other stream
_ALONE: Final = -1.0  # another stream of the rank has stopped: it has done its iterations

Calls = tuple[int, ...]  # of each stream
Iterations = tuple[int, ...]  # of each stream


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
        """How long an iteration of the slowest stream takes; one call of it where it is balanced."""
        return float(max(ns * max(1, count) for ns, count in zip(self.call_ns, self.fixed, strict=True)))

    @property
    def sample_calls(self) -> Calls:
        """Of each stream, in a sample."""
        return self.calls((self.repeat,) * len(self.fixed))

    def calls(self, iterations: Iterations) -> Calls:
        """Calls of each stream in so many iterations of its own, none in no iteration: as given, or as many
        as take as long as the slowest stream's.
        """
        return tuple(
            own and (own * count or max(1, round(own * self.iteration_ns / ns)))
            for own, ns, count in zip(iterations, self.call_ns, self.fixed, strict=True)
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
        self, prepared: PreparedStep, givens: Sequence[Conditions], streams: Sequence[Stream]
    ) -> None:
        self._prepared, self._given, self._givens = prepared, givens[0], tuple(givens)
        self._fixed = tuple(stream.calls for stream in streams)
        self.warmup_calls = np.zeros(len(self._fixed), np.int64)
        self.lost_ns = 0
        self.taken: tuple[Taken, ...] = ()
        self._overlap: tuple[Float64Array, ...] = ()
        self._call_ns = np.ones(len(self._fixed))

    def paced(self, call_ns: Float64Array) -> _Pace:
        """The pace of calls that take so long."""
        return _Pace(self._fixed, call_ns)

    def agreed(self, calls: Calls) -> _Pace:
        """Run one round untimed; the pace that it shows, on the slowest rank. Collective."""
        self._given.world.barrier()
        looks, _ = self._prepared.time(calls, 0, 1)
        slowest = self._given.world.max(np.concatenate([look.elapsed_ns for look in looks]))
        self.warmup_calls += calls
        own = np.array(calls)
        shown = np.maximum(1.0, slowest / np.maximum(1, own))
        self._call_ns = np.where(own > 0, shown, self._call_ns)
        return self.paced(self._call_ns)

    def warm_up(self, limits: Limits, own: Iterations) -> _Pace:
        """Untimed iterations, as for one operation alone; each round corrects the pace. A stream is through
        with as many as are its ``own``, unless there is a time to fill.
        """
        least, least_ns = measure.untimed(limits)
        least = max(least, *own) if limits.warmup_calls is not None else least
        pace = self.agreed(tuple(max(1, count) for count in self._fixed))
        done, spent_ns, rounds = 1, pace.iteration_ns, 1
        fixed = limits.warmup_calls is not None
        while (done < least if fixed else rounds < LEAST_ROUNDS) or spent_ns < least_ns:
            left = max(least - done, math.ceil(least_ns / pace.iteration_ns))
            iterations = max(1, min(left, measure.MOST_CALLS_A_ROUND, 2 ** (rounds + 1)))
            needed = spent_ns < least_ns or not fixed
            wanted = [iterations if needed else min(iterations, max(0, count - done)) for count in own]
            pace = self.agreed(pace.calls(tuple(wanted)))
            done, spent_ns, rounds = done + iterations, spent_ns + iterations * pace.iteration_ns, rounds + 1
        return pace.timed(self._given.timing_cost_ns, limits)

    def begin(self, pace: _Pace) -> None:
        """Forget what was sampled at another pace: it is warm-up."""
        for number, taken in enumerate(self.taken):
            self.warmup_calls[number] += len(taken.across) * taken.k
        self.taken = tuple(map(Taken.none, pace.sample_calls))
        self._overlap = (np.empty(0),) * len(self.taken)

    def add(self, wanted: Sequence[int], lead: int = 1) -> None:
        """One look more, behind ``lead`` untimed samples, of streams with fewer than wanted. Collective."""
        given = self._given
        left = [count - len(taken.across) for count, taken in zip(wanted, self.taken, strict=True)]
        samples = min(given.max_samples_per_look, *(count for count in left if count > 0))
        given.world.barrier()
        before = CoreClock.now()
        calls = [taken.k if count > 0 else 0 for count, taken in zip(left, self.taken, strict=True)]
        looks, overlaps = self._prepared.time(calls, lead, samples)
        after = CoreClock.now()
        lost = 0 if given.contended else after.lost_since(before)
        self.lost_ns += lost
        stepped = SampleFlag.CLOCK_STEP if after.stepped_since(before) else 0
        smallest = -given.world.max(-np.nan_to_num(overlaps, nan=_NO_OVERLAP).reshape(-1))
        shares = smallest.reshape(overlaps.shape)
        if 0 in calls:
            shares[shares == 0] = _ALONE
        taken, overlap = list(self.taken), list(self._overlap)
        for number in np.flatnonzero(calls).tolist():
            of_stream = self._givens[number]
            own = replace(looks[number], took_part=looks[number].took_part and not of_stream.idle)
            flags = np.full(samples, stepped, np.int64)
            if lost and own.took_part:
                flags |= flag_lost(own.elapsed_ns, lost)
            across = across_ranks(own, flags, given.timing.time, given.world, None, of_stream.grouping)
            longer = Taken(taken[number].k, own.elapsed_ns, own.issue_ns, across)
            taken[number] = taken[number].joined(longer)
            overlap[number] = np.concatenate((overlap[number], shares[number]))
        self.taken, self._overlap = tuple(taken), tuple(overlap)

    @property
    def samples(self) -> int:
        """How many there are of the stream with most."""
        return max(len(taken.across) for taken in self.taken)

    def seen(self, limits: Limits) -> _Pace:
        """The pace that the samples show."""
        medians = [max(1.0, float(np.median(taken.across.worst)) / taken.k) for taken in self.taken]
        return self.paced(np.array(medians)).timed(self._given.timing_cost_ns, limits)

    @property
    def spent_s(self) -> float:
        """What sampling took, by the slowest stream of each sample."""
        worst = np.zeros((len(self.taken), self.samples))
        for row, taken in zip(worst, self.taken, strict=True):
            row[: len(taken.across)] = taken.across.worst
        return float(worst.max(axis=0).sum()) / 1e9

    def results(self, stops: Sequence[StopReason], first_ns: Float64Array) -> list[Samples]:
        """What the ranks know of every stream."""
        warmup_calls, own = self.warmup_calls.tolist(), {"lost_ns": self.lost_ns, "ended_s": time.time()}
        return [
            Samples.of_pass(
                taken,
                warmup_calls[number],
                stops[number],
                first_call_ns=float(first_ns[number]),
                overlap=_overlap(self._overlap[number][taken.kept]),
                **own,
            )
            for number, taken in enumerate(self.taken)
        ]


def _overlap(shares: Float64Array) -> float | None:
    """The median over samples; of those that no other stream has left alone, times their share."""
    known = shares[shares <= 1.0]
    if not len(known):
        return None
    beside = known[known != _ALONE]
    return float(np.median(beside)) * len(beside) / len(known) if len(beside) else 0.0


def measure_together(
    prepared: PreparedStep,
    givens: Sequence[Conditions],
    streams: Sequence[Stream],
    limits: Limits,
    first_ns: Float64Array,
) -> list[Samples]:
    """Time one step. Collective over the world; ``first_ns`` is of each stream's first call, cold."""
    step = _Step(prepared, givens, streams)
    counts = _Counts.of(streams, limits)
    if limits.outer_iters:
        return _repeated(step, givens[0], limits, counts, first_ns)
    pace = step.warm_up(limits, counts.untimed)
    wanted = _start(step, pace, limits, counts)
    for _ in range(MOST_CALIBRATIONS):
        _take(step, wanted)
        better = step.seen(limits)
        if not _is_other(pace, better):
            break
        pace = better
        wanted = _start(step, pace, limits, counts)
    while True:
        _take(step, wanted)
        judged = [
            stopping.judge_look(taken.times_ns, len(taken.across), step.spent_s, limits, passes=1)
            for taken in step.taken
        ]
        stops = [stop for stop in judged if stop is not None]
        if len(stops) == len(judged):
            return step.results(stops, first_ns)
        more = min(stopping.next_look(step.samples), max(limits.max_samples, step.samples + 1))
        wanted = (more,) * len(streams)


def first_calls_ns(prepared: PreparedStep, given: Conditions, streams: Sequence[Stream]) -> Float64Array:
    """Nanoseconds of each stream's first call, beside the others' first calls, cold. Collective."""
    step = _Step(prepared, (given,) * len(streams), streams)
    return step.agreed((1,) * len(streams)).call_ns


@dataclass(frozen=True)
class _Counts:
    """Iterations of each stream that are timed (0 where that is not fixed) and untimed."""

    timed: Iterations
    untimed: Iterations

    @classmethod
    def of(cls, streams: Sequence[Stream], limits: Limits) -> _Counts:
        own = [stream.limits(limits) for stream in streams]
        return cls(tuple(each.calls or 0 for each in own), tuple(measure.untimed(each)[0] for each in own))

    @property
    def both(self) -> Iterations:
        """Timed and untimed together."""
        return tuple(map(sum, zip(self.timed, self.untimed, strict=True)))

    def repeat(self, fitting: int) -> int:
        """How many iterations make up a sample, so that none of a stream is left out: as many as fit."""
        fitting = max(1, min(fitting, min(self.timed) // stopping.FIRST_LOOK))
        whole = math.gcd(*self.timed)
        return max(n for n in range(1, fitting + 1) if whole % n == 0)


def _start(step: _Step, pace: _Pace, limits: Limits, counts: _Counts) -> Iterations:
    """How many samples of each stream the first look at this pace ends with."""
    if limits.calls is not None:
        if len(set(counts.timed)) == 1:
            samples, repeat = stopping.fixed_samples(counts.timed[0], pace.repeat)
            step.begin(replace(pace, repeat=repeat))
            return (samples,) * len(counts.timed)
        repeat = counts.repeat(pace.repeat)
        step.begin(replace(pace, repeat=repeat))
        return tuple(timed // repeat for timed in counts.timed)
    step.begin(pace)
    fitting = int(limits.case_seconds * 1e9 / (pace.repeat * pace.iteration_ns))
    return (max(1, min(stopping.next_look(0), fitting)),) * len(counts.timed)


def _take(step: _Step, wanted: Sequence[int], lead: int = 1) -> None:
    """Sample until every stream has so many samples: one that has them stops, and the others go on."""
    while any(len(taken.across) < count for taken, count in zip(step.taken, wanted, strict=True)):
        step.add(wanted, lead)


def _is_other(pace: _Pace, better: _Pace) -> bool:
    """Whether samples at the old pace would be of too few calls, or of streams out of balance."""
    drifted = any(
        abs(now - before) > max(1, _DRIFT * before)
        for before, now in zip(
            pace.sample_calls, replace(better, repeat=pace.repeat).sample_calls, strict=True
        )
    )
    return drifted or better.repeat > 2 * pace.repeat


def _repeated(
    step: _Step, given: Conditions, limits: Limits, counts: _Counts, first_ns: Float64Array
) -> list[Samples]:
    """Two-level iterations, as ``measure.measure_repeated`` has them of one operation."""
    assert limits.calls, "the plan has -n with repetitions"
    untimed = counts.untimed if limits.warmup_calls is not None else (0,) * len(counts.timed)
    counts = replace(counts, untimed=untimed)
    pace = step.paced(first_ns)
    for _ in range(limits.outer_warmup_iters):
        pace = step.agreed(pace.calls(counts.both))
    pace = replace(pace, repeat=counts.repeat(pace.timed(given.timing_cost_ns, limits).repeat))
    step.begin(pace)
    for repetition in range(1, limits.outer_iters + 1):
        if any(untimed):
            step.agreed(pace.calls(untimed))
        _take(step, [repetition * timed // pace.repeat for timed in counts.timed], lead=0)
    return step.results([StopReason.CALLS] * len(step.taken), first_ns)
