"""Measure one case in passes: warm up, then look after look until every rank, from the same numbers, says
that the pass has enough; other cases may be measured between two passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from busbw.model.neighbour import Beside
from busbw.model.plan import Limits, Timing
from busbw.model.progress import Phase
from busbw.model.result import StopReason
from busbw.model.sample import EXCLUDING, SampleFlag
from busbw.rank import progress
from busbw.rank.backends.base import Int64Array, Look, PreparedCase
from busbw.rank.delays import delays_ns, latest_ns
from busbw.rank.descheduled import CoreClock, flag_lost
from busbw.rank.reduce_samples import Across, Grouping, across_ranks
from busbw.rank.world.base import World
from busbw.rank.world.clock import GlobalClock
from busbw.stats import stopping
from busbw.stats.interval import Float64Array, median
from busbw.stats.outliers import exclude
from busbw.stats.stopping import PacedBy

# Without -w calls warm up until a round is no faster than those before, for 3 calls or 20 ms at most.
WARMUP_CALLS: Final = 3
WARMUP_NS: Final = 20e6
WARMUP_ROUND_NS: Final = 0.5e6
STEADY: Final = 0.98  # a round that takes more than this of the fastest one before is steady
# Untimed calls before the first look of a later pass, since the cases between have used caches and
# connections, and before other looks at most: ranks that come from a control message are apart by less.
LEAD_NS: Final = 0.5e6
SINGLE_LEAD_CALLS: Final = 20
MOST_FASTER_LOOKS: Final = 3
# A captured graph holds a round's calls, and large graphs take long to make.
MOST_CALLS_A_ROUND: Final = 1024
# nccl-tests times 20 calls a loop; fewer would measure the skew with which ranks leave the barrier.
LEAST_LOOP_CALLS: Final = 20
# Single calls for percentiles up to p99, which needs 299 (stats.percentile).
SINGLE_CALLS: Final = 320

NO_SAMPLES: Final[Int64Array] = np.empty(0, np.int64)
Lead = int | None  # untimed calls before a look; None: as many as its kind of calls takes


@dataclass(frozen=True)
class Conditions:
    """What holds for every case of a run. ``contended``: ranks share cores, so losing one is no surprise.
    ``shares_gpu``: two ranks or more are on one GPU, as pods of one machine may be. ``clock`` is there where
    the ranks' clocks are synchronised. ``singles``: how many calls to time one by one for percentiles, 0
    where none are shown. ``graph_launches``: -G. ``grouping`` is there where the world is split.
    ``profiled``: a profiler is attached to a rank. ``idle``: this rank has nothing to send or receive in the
    case at hand, while others have. ``span_s``: how long the passes of a case span at least. ``on_look`` is
    given what is taken of the headline's samples, after every look.
    """

    world: World
    limits: Limits
    timing: Timing
    timing_cost_ns: float
    max_samples_per_look: int
    contended: bool = False
    shares_gpu: bool = False
    clock: GlobalClock | None = None
    singles: int = 0
    graph_launches: int = 0
    seed: int = 0
    grouping: Grouping | None = None
    profiled: bool = False
    idle: bool = False
    span_s: float = 0.0
    on_look: Callable[[Taken], None] | None = None

    @property
    def takes_part(self) -> bool:
        """Whether this rank's time is one of the operation."""
        return not self.idle and (self.grouping is None or self.grouping.group is not None)

    @property
    def loops(self) -> bool:
        """Whether samples are loops that the host times, as nccl-tests does."""
        return self.timing.time.startswith("loop")

    @property
    def whole_loops(self) -> bool:
        """Whether -n calls are one loop, and its time over ranks is what -a says."""
        return self.timing.time.startswith("loop-")


@dataclass(frozen=True)
class Taken:
    """Samples of this rank and over all ranks, of ``k`` calls each."""

    k: int
    own_ns: Int64Array
    issue_ns: Int64Array
    across: Across

    @classmethod
    def none(cls, k: int) -> Taken:
        """No samples yet."""
        return cls(k, NO_SAMPLES, NO_SAMPLES, Across.empty())

    def joined(self, more: Taken) -> Taken:
        """With the samples of a later look or pass."""
        own, issue = (self.own_ns, more.own_ns), (self.issue_ns, more.issue_ns)
        return Taken(self.k, np.concatenate(own), np.concatenate(issue), self.across.extended(more.across))

    @cached_property
    def kept(self) -> Int64Array:
        """Positions of the samples that count: without those that outside evidence speaks against, unless
        these are more than one in 20, when leaving them out would hide what happened.
        """
        out = exclude(self.across.flags, EXCLUDING)
        return out.kept if out.valid else np.arange(len(self.across), dtype=np.int64)

    @cached_property
    def times_ns(self) -> Float64Array:
        """Per kept sample, the headline's time of one call."""
        return self.across.headline[self.kept] / self.k

    @cached_property
    def median_ns(self) -> float:
        """Of ``times_ns``."""
        return median(self.times_ns)

    @cached_property
    def call_issue_ns(self) -> float:
        """Per call, what the slowest rank's host takes to issue it."""
        return median(self.across.issue[self.kept]) / self.k

    @property
    def is_issued_apart(self) -> bool:
        """Whether issuing a call is not the call itself, as it is on CPU ranks."""
        return not np.array_equal(self.across.issue, self.across.worst)

    @property
    def paced(self) -> PacedBy:
        """Who sets the pace of its calls; samples of one call are isolated, or long."""
        if self.k == 1 or not self.is_issued_apart:
            return PacedBy.UNKNOWN
        is_host = self.call_issue_ns >= stopping.HOST_SHARE * self.median_ns
        return PacedBy.HOST if is_host else PacedBy.DEVICE

    @property
    def spent_ns(self) -> float:
        """What the samples took."""
        return float(self.across.worst.sum())


@dataclass(frozen=True)
class Samples:
    """Everything sampled for one case so far. ``stops`` say why each of its passes ended, ``ends`` after how
    many samples; ``passes`` are wanted in all. ``singles`` are calls timed one by one where ``taken`` has
    several a sample. ``first_call_ns`` is of the case's first call, cold, on the slowest rank; ``lost_ns`` is
    how long this rank had no core, ``latest_ns`` by how much ranks were delayed on purpose at most.
    ``ended_s`` is this rank's clock after the last sample, ``neighbours`` what neighbours did to the case;
    ``overlap`` of a stream: see ``CaseResult.overlap``.
    """

    taken: Taken
    warmup_calls: int
    stops: tuple[StopReason, ...]
    ends: tuple[int, ...] = ()
    first_call_ns: float = 0.0
    passes: int = 1
    lost_ns: int = 0
    singles: Taken | None = None
    latest_ns: float = 0.0
    call_ns: float = 1.0
    ended_s: float = 0.0
    neighbours: tuple[Beside, ...] = ()
    overlap: float | None = None

    @classmethod
    def of_pass(cls, taken: Taken, warmup_calls: int, stop: StopReason, **more: Any) -> Samples:  # noqa: ANN401
        """Those of one pass, and other fields."""
        return cls(taken, warmup_calls, (stop,), (len(taken.across),), **more)

    @property
    def complete(self) -> bool:
        """Whether no pass is left."""
        return len(self.stops) >= self.passes

    @property
    def times_ns(self) -> Float64Array:
        """What the headline is the median of."""
        return self.taken.times_ns

    def split(self, kept: Int64Array) -> list[Int64Array]:
        """Positions of samples, by pass."""
        return np.split(kept, np.searchsorted(kept, self.ends[:-1]))

    @property
    def times_by_pass(self) -> list[Float64Array]:
        """``times_ns`` of each pass that has any."""
        parts = self.split(self.taken.kept)
        return [self.taken.across.headline[part] / self.taken.k for part in parts if len(part)]


@dataclass(frozen=True)
class Pace:
    """How a case is sampled, agreed by all ranks before the first look."""

    k: int
    warmup_calls: int
    call_ns: float


class Sampling:
    """Takes looks of one case. The only state that changes while a case is measured."""

    def __init__(self, prepared: PreparedCase, given: Conditions, call_ns: float, earlier: int = 0) -> None:
        self._prepared = prepared
        self._given = given
        self._call_ns = call_ns
        self._earlier = earlier  # samples of the passes before
        self.calls_per_issue = prepared.calls_per_issue
        self.lost_ns = 0

    def add(self, taken: Taken, samples: int, *, single: bool = False, lead: Lead = None) -> Taken:
        """One look more: collective, and its only control message is one reduction, after which all ranks
        begin the next look together. ``single``: calls one by one also where the headline is of loops.
        ``lead`` untimed calls come first; by default those of one sample, for LEAD_NS at most, where calls
        are back-to-back, else none.
        """
        given = self._given
        loops = given.loops and not single
        before = CoreClock.now()
        look = self._loops(samples, taken.k, lead) if loops else self._take(taken, samples, lead)
        after = CoreClock.now()
        if given.idle:
            look = replace(look, took_part=False)
        flags = np.zeros(samples, np.int64)
        # In loop mode the control barriers, in which a rank may sleep, lie between the samples of a look.
        if not given.contended and not loops and (lost := after.lost_since(before)):
            self.lost_ns += lost
            flags |= flag_lost(look.elapsed_ns, lost)
        if after.stepped_since(before):
            flags |= SampleFlag.CLOCK_STEP
        clock = given.clock if look.entry_ns is not None or not look.took_part else None
        time = "max" if given.loops and single else given.timing.time
        across = across_ranks(look, flags, time, given.world, clock, given.grouping)
        longer = taken.joined(Taken(taken.k, look.elapsed_ns, look.issue_ns, across))
        if given.on_look is not None and not single:
            given.on_look(longer)
        return longer

    def until(
        self, wanted: int, taken: Taken, lead: Lead = None, then: Lead = None, *, single: bool = False
    ) -> Taken:
        """Looks until there are so many samples; ``then`` is the lead of all looks but the first."""
        while (missing := wanted - len(taken.across)) > 0:
            samples = min(missing, self._given.max_samples_per_look)
            taken, lead = self.add(taken, samples, single=single, lead=lead), then
        return taken

    def _take(self, taken: Taken, samples: int, lead: int | None) -> Look:
        timing, first, k = self._given.timing, self._earlier + len(taken.across), taken.k
        if timing.mode == "latency":
            world = self._given.world
            if lead:
                self._prepared.time(0, 1, lead)
            delays = delays_ns(
                timing, world.rank, world.size, self._call_ns, self._given.seed, first, samples
            )
            return self._prepared.time_isolated(samples, delays, barrier=timing.barrier)
        if lead is None:
            lead = min(k, _calls_in(LEAD_NS, self._call_ns, self))
        return self._prepared.time(lead, samples, k)

    def _loops(self, samples: int, k: int, lead: int | None) -> Look:
        elapsed = np.empty(samples, np.int64)
        if lead:
            self._prepared.time(0, 1, lead)
        for i in range(samples):
            self._given.world.barrier()
            elapsed[i] = self._prepared.time_loop(k)
        return Look(elapsed, elapsed, took_part=self._given.takes_part)


def measure(prepared: PreparedCase, given: Conditions, limits: Limits) -> Samples:
    """The first pass of one case. Collective; ``limits`` are the run's, cut to the case's share."""
    pace = warm_up(prepared, given, limits)
    sampling = Sampling(prepared, given, pace.call_ns)
    wanted, k = first_look(limits, pace, given, prepared)
    progress.phase(Phase.TIMING, k * pace.call_ns / 1e9)
    warmup_calls, faster_looks = pace.warmup_calls, 0
    taken, passes = Taken.none(k), 1
    stop: StopReason | None = None
    while stop is None:
        taken = sampling.until(wanted, taken)
        call_ns = max(1.0, float(taken.across.worst.min()) / k)
        better = Pace(_calls_per_sample(call_ns, given, limits), 0, call_ns)
        better_look = first_look(limits, better, given, prepared)
        if better_look[1] > 2 * k and faster_looks < MOST_FASTER_LOOKS:
            # The warm-up ran slower than the calls do (a busy core, a cold path, -w 1), so k is too small for
            # the true pace: these samples become warm-up, and sampling starts again.
            warmup_calls, faster_looks = warmup_calls + len(taken.across) * k, faster_looks + 1
            pace, (wanted, k) = better, better_look
            taken, sampling = Taken.none(k), Sampling(prepared, given, pace.call_ns)
            continue
        sample_ns = taken.spent_ns / len(taken.across)
        passes = stopping.wanted_passes(limits, taken.median_ns, sample_ns, taken.paced)
        stop = _enough(taken, limits, passes, taken.paced)
        own_limits = stopping.of_pass(limits, passes, taken.median_ns, taken.paced)
        wanted = _next_look(taken, own_limits, passes)
    latest, lost_ns = latest_ns(given.timing, pace.call_ns), sampling.lost_ns
    own = {"passes": passes, "lost_ns": lost_ns, "latest_ns": latest, "call_ns": pace.call_ns}
    return _with_singles(Samples.of_pass(taken, warmup_calls, stop, **own), sampling, given, limits)


def measure_again(samples: Samples, prepared: PreparedCase, given: Conditions, limits: Limits) -> Samples:
    """With one pass more, at the same k. Collective over the world: the ranks come together from the look of
    another case or from a barrier, and the untimed calls take up by how much they are apart.
    """
    passes, earlier, k = samples.passes, len(samples.taken.across), samples.taken.k
    sampling = Sampling(prepared, given, samples.call_ns, earlier)
    call_ns = max(1.0, median(samples.taken.across.worst) / k)
    lead = _calls_in(LEAD_NS, call_ns, sampling)
    paced = samples.taken.paced
    own_limits = stopping.of_pass(limits, passes, call_ns, paced)
    most = min(stopping.first_look(passes), own_limits.max_samples)
    wanted = max(1, min(most, int(own_limits.case_seconds * 1e9 / (k * call_ns))))
    progress.phase(Phase.TIMING, k * call_ns / 1e9)
    taken = sampling.until(wanted, Taken.none(k), lead)
    while (stop := _enough(taken, limits, passes, paced)) is None:
        taken = sampling.until(_next_look(taken, own_limits, passes), taken)
    more = replace(
        samples,
        taken=samples.taken.joined(taken),
        warmup_calls=samples.warmup_calls + lead,
        stops=(*samples.stops, stop),
        ends=(*samples.ends, earlier + len(taken.across)),
        lost_ns=samples.lost_ns + sampling.lost_ns,
    )
    return _with_singles(more, sampling, given, limits)


def _calls_in(time_ns: float, call_ns: float, sampling: Sampling) -> int:
    """How many calls fit into a time, in whole groups, and at least one group."""
    return _multiple(max(1, int(time_ns / call_ns)), sampling.calls_per_issue)


def warm_up(prepared: PreparedCase, given: Conditions, limits: Limits) -> Pace:
    """Run the untimed calls (see ``untimed``), and learn the pace from them; without -w, no longer than until
    they are steady.

    The ranks have just met, in the case's first call or its check. The first calls are the slowest
    (connections, caches), so the pace is that of the fastest round. Every count comes from numbers that all
    ranks share, or they would issue different numbers of calls.
    """
    world, group = given.world, prepared.calls_per_issue
    least_calls, least_ns = untimed(limits)
    adaptive = limits.warmup_calls is None and limits.warmup_seconds is None
    done, steady = group, False
    call_ns = agreed_call_ns(prepared, world, done)
    spent_ns = done * call_ns
    while not steady and (done < least_calls or spent_ns < least_ns):
        left_ns = min(least_ns - spent_ns, WARMUP_ROUND_NS) if adaptive else least_ns - spent_ns
        calls = max(1 if adaptive else least_calls - done, math.ceil(left_ns / call_ns))
        calls = min(_multiple(min(calls, MOST_CALLS_A_ROUND), group), prepared.max_calls)
        round_ns = agreed_call_ns(prepared, world, calls)
        done, spent_ns = done + calls, spent_ns + calls * round_ns
        steady = adaptive and round_ns > STEADY * call_ns
        call_ns = min(call_ns, round_ns)
    return Pace(_calls_per_sample(call_ns, given, limits), done, call_ns)


def _calls_per_sample(call_ns: float, given: Conditions, limits: Limits) -> int:
    small_ns = limits.small_ns if limits.calls is None else 0.0  # with -n, k may be halved again
    return stopping.calls_per_sample(call_ns, given.timing_cost_ns, small_ns)


def untimed(limits: Limits) -> tuple[int, float]:
    """How many calls at least come before the timed ones, and for how long at least, in ns."""
    if limits.warmup_calls is None:
        least_calls, usual_ns = WARMUP_CALLS, WARMUP_NS
    else:
        least_calls, usual_ns = limits.warmup_calls, 0.0
    return least_calls, usual_ns if limits.warmup_seconds is None else limits.warmup_seconds * 1e9


def first_call(prepared: PreparedCase, world: World) -> float:
    """Nanoseconds of the case's first call (or group) on this rank, cold: connections are made and kernels
    are loaded. Collective.
    """
    world.barrier()
    group = prepared.calls_per_issue
    return float(prepared.time(0, 1, group).elapsed_ns[0]) / group


def agreed_call_ns(prepared: PreparedCase, world: World, calls: int) -> float:
    """Run untimed calls; nanoseconds of one of them on the slowest rank. Collective: a late rank makes the
    others' calls longer, so ranks that were apart meet before.
    """
    look = prepared.time(0, 1, calls)
    return max(1.0, float(world.max(look.elapsed_ns)[0]) / calls)


def first_look(limits: Limits, pace: Pace, given: Conditions, prepared: PreparedCase) -> tuple[int, int]:
    """(samples, k) of the first look. Where even that does not fit into the time, fewer samples, at least
    one. With -n and a graph, as in nccl-tests: one graph of all calls, launched so often.
    """
    k, group = min(pace.k, prepared.max_calls), prepared.calls_per_issue
    if limits.calls is not None and given.graph_launches:
        return given.graph_launches, limits.calls
    if limits.calls is not None and given.whole_loops:
        k = min(limits.calls, prepared.max_calls)
        return limits.calls // k, k
    if given.timing.mode == "latency":
        k = 1
    elif given.loops:
        k = max(k, LEAST_LOOP_CALLS)
    if limits.calls is not None:
        # Loops are not shortened to get more of them: their length is their definition.
        least = 1 if given.loops else stopping.FIRST_LOOK
        samples, groups = stopping.fixed_samples(limits.calls // group, -(-k // group), least)
        return samples, groups * group
    k = min(_multiple(k, group), prepared.max_calls)
    sample_ns = k * pace.call_ns
    passes = stopping.wanted_passes(limits, pace.call_ns, sample_ns)
    # Where ranks share cores a call may take a thousand times what the fastest of the warm-up did: one sample
    # shows the pace before more are asked for.
    most = 1 if given.contended else stopping.first_look(passes)
    own_limits = stopping.of_pass(limits, passes, pace.call_ns)
    return max(1, min(most, own_limits.max_samples, int(own_limits.case_seconds * 1e9 / sample_ns))), k


def _multiple(calls: int, group: int) -> int:
    return -(-calls // group) * group


def _next_look(taken: Taken, limits: Limits, passes: int) -> int:
    """Samples to have at the next look. Before those of the first no look can stop by precision, so more
    looks spoil no promise there, and none asks for more than fits into the time that is left.
    """
    samples = len(taken.across)
    wanted = min(stopping.next_look(samples, passes), max(limits.max_samples, samples + 1))
    if samples >= stopping.first_look(passes):
        return wanted
    left_ns = limits.case_seconds * 1e9 - taken.spent_ns
    return min(wanted, samples + max(1, int(left_ns / median(taken.across.worst))))


def _enough(taken: Taken, limits: Limits, passes: int, paced: PacedBy) -> StopReason | None:
    spent_s = taken.spent_ns / 1e9
    return stopping.judge_look(taken.times_ns, len(taken.across), spent_s, limits, passes, paced)


def _with_singles(samples: Samples, sampling: Sampling, given: Conditions, limits: Limits) -> Samples:
    """With this pass's share of the single calls, where samples of several calls hide the spread of one."""
    wanted = given.singles if limits.calls is None else min(given.singles, limits.calls)
    group, passes = sampling.calls_per_issue, samples.passes
    if wanted == 0 or samples.taken.k == group or (given.loops and not given.whole_loops):
        return samples
    call_ns = max(1.0, samples.taken.median_ns + given.timing_cost_ns)
    own_limits = stopping.of_pass(limits, passes, call_ns)
    wanted = min(-(-wanted // passes), int(own_limits.case_seconds * 1e9 / call_ns))
    if wanted == 0:
        return samples
    # Where nothing is adaptive the calls are counted, and one comes before each look as elsewhere.
    most = _calls_in(WARMUP_NS, call_ns, sampling)
    lead = None if limits.calls is not None else min(_multiple(SINGLE_LEAD_CALLS, group), most)
    lost_ns = sampling.lost_ns
    singles = sampling.until(wanted, Taken.none(group), lead, lead, single=True)
    both = singles if samples.singles is None else samples.singles.joined(singles)
    return replace(samples, singles=both, lost_ns=samples.lost_ns + sampling.lost_ns - lost_ns)


# ---- windows of a soak --------------------------------------------------------------------------------
WINDOW_SAMPLE_NS: Final = 10e6
# What a look takes, and which part of a window at most: calls that become slow make a window longer by one
# look of theirs.
WINDOW_LOOK_NS: Final = 0.5e9
WINDOW_LOOKS: Final = 8


def measure_window(prepared: PreparedCase, given: Conditions, limits: Limits) -> Samples:
    """Time one case for ``limits.case_seconds``. Collective over the world; time alone ends it, and samples
    are long enough that a window of any size has a thousand or fewer.
    """
    pace = warm_up(prepared, given, limits)
    sampling = Sampling(prepared, given, pace.call_ns)
    fitting = _calls_in(WINDOW_SAMPLE_NS, pace.call_ns, sampling)
    k = 1 if given.timing.mode == "latency" else max(pace.k, fitting)
    taken = Taken.none(min(_multiple(k, sampling.calls_per_issue), prepared.max_calls))
    window_ns = limits.case_seconds * 1e9
    look_ns = min(WINDOW_LOOK_NS, window_ns / WINDOW_LOOKS)
    wanted = 1  # the warm-up's pace may be a fraction of the pace to come
    while (left_ns := window_ns - taken.spent_ns) > 0:
        taken = sampling.add(taken, max(1, min(wanted, given.max_samples_per_look)))
        sample_ns = taken.spent_ns / len(taken.across)
        wanted = min(2 * len(taken.across), int(min(left_ns, look_ns) / sample_ns))
    own = {"lost_ns": sampling.lost_ns, "call_ns": pace.call_ns}
    return Samples.of_pass(taken, pace.warmup_calls, StopReason.CASE_TIME, **own)


# ---- two-level iterations (nccom-test) --------------------------------------------------------------
# w untimed and n timed calls, repeated I times behind W untimed repetitions: (n + w) (I + W) calls are run
# and n I of them measured. Nothing is adaptive here, so the counts are exact; the check comes before.


def measure_repeated(prepared: PreparedCase, given: Conditions, limits: Limits) -> Samples:
    """Time one case with ``limits.outer_iters`` repetitions. Collective over the world."""
    assert limits.calls, "the plan has -n with repetitions"
    timed, untimed = limits.calls, limits.warmup_calls or 0
    call_ns = 0.0  # not known yet
    given.world.barrier()
    for _ in range(limits.outer_warmup_iters):
        call_ns = agreed_call_ns(prepared, given.world, timed + untimed)
    run = limits.outer_warmup_iters * (timed + untimed)
    group = prepared.calls_per_issue
    taken, sampling = Taken.none(group), Sampling(prepared, given, call_ns)
    for repetition in range(limits.outer_iters):
        lead = untimed
        if not call_ns and untimed:  # the first untimed calls show the pace
            call_ns, lead = agreed_call_ns(prepared, given.world, untimed), 0
        if repetition == 0:
            taken = Taken.none(group * _issues_per_sample(timed // group, call_ns / group, given))
        # As many looks as the events of a look allow, the first behind the untimed calls.
        taken = sampling.until((repetition + 1) * (timed // taken.k), taken, lead, then=0)
        run += untimed
    return Samples.of_pass(taken, run, StopReason.CALLS, lost_ns=sampling.lost_ns)


def _issues_per_sample(issues: int, issue_ns: float, given: Conditions) -> int:
    """A divisor of the issues, so that none is left out: as few as timing allows, all in loop mode."""
    if given.loops:
        return issues
    if given.timing.mode == "latency" or issue_ns <= 0:
        return 1
    fitting = stopping.calls_per_sample(issue_ns, given.timing_cost_ns)
    most = max(1, min(fitting, issues // stopping.FIRST_LOOK))
    return max(divisor for divisor in range(1, most + 1) if issues % divisor == 0)
