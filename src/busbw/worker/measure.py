"""Measure one case: warm up, then look after look until every rank, from the same numbers, says enough."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.backends.base import PreparedCase
from busbw.model.plan import Limits
from busbw.model.result import StopReason
from busbw.stats import stopping
from busbw.world.base import World

WARMUP_CALLS: Final = 3
WARMUP_NS: Final = 20e6
MOST_FASTER_LOOKS: Final = 3

Int64Array = npt.NDArray[np.int64]
NO_SAMPLES: Final[Int64Array] = np.empty(0, np.int64)


@dataclass(frozen=True)
class Samples:
    """Everything sampled for one case. ``own`` and ``issue`` are this rank's, ``worst`` the maximum over
    ranks (the same on all); nanoseconds of ``k`` calls each.
    """

    k: int
    own_ns: Int64Array
    issue_ns: Int64Array
    worst_ns: Int64Array
    warmup_calls: int
    stop: StopReason

    @property
    def times_ns(self) -> npt.NDArray[np.float64]:
        """Per sample, the maximum over ranks of the time of one call."""
        return self.worst_ns / self.k


@dataclass(frozen=True)
class Pace:
    """How a case is sampled, agreed by all ranks before the first look."""

    k: int
    warmup_calls: int
    call_ns: float


def measure(
    prepared: PreparedCase,
    world: World,
    limits: Limits,
    *,
    timing_cost_ns: float,
    max_samples_per_look: int,
) -> Samples:
    """Time one case. Collective over the world."""
    pace = warm_up(prepared, world, limits, timing_cost_ns)
    wanted, k = _first_look(limits, pace)
    warmup_calls, faster_looks = pace.warmup_calls, 0
    own, issue, worst = NO_SAMPLES, NO_SAMPLES, NO_SAMPLES
    stop: StopReason | None = None
    while stop is None:
        samples = min(wanted - len(worst), max_samples_per_look)
        world.barrier()
        look = prepared.time(k, samples, k)
        own = np.concatenate((own, look.elapsed_ns))
        issue = np.concatenate((issue, look.issue_ns))
        worst = np.concatenate((worst, world.max(look.elapsed_ns)))
        if len(worst) < wanted:
            continue
        call_ns = float(worst.min()) / k
        better = _first_look(limits, Pace(stopping.calls_per_sample(call_ns, timing_cost_ns), 0, call_ns))
        if better[1] > 2 * k and faster_looks < MOST_FASTER_LOOKS:
            # The warm-up ran slower than the calls do (a busy core, a cold path, -w 1), so k is too small for
            # the true pace: these samples become warm-up, and sampling starts again.
            warmup_calls, faster_looks = warmup_calls + len(worst) * k, faster_looks + 1
            wanted, k = better
            own, issue, worst = NO_SAMPLES, NO_SAMPLES, NO_SAMPLES
            continue
        stop = _enough(worst, k, limits)
        wanted = _next_look(len(worst), limits)
    return Samples(k, own, issue, worst, warmup_calls, stop)


def warm_up(prepared: PreparedCase, world: World, limits: Limits, timing_cost_ns: float) -> Pace:
    """Run the untimed calls, at least 3 and 20 ms unless ``-w`` fixes them, and learn the pace from them.

    The first calls are the slowest (connections, caches), so the pace is that of the fastest round. Every
    count comes from numbers that all ranks share, or they would issue different numbers of calls.
    """
    fixed = limits.warmup_calls
    done = WARMUP_CALLS if fixed is None else 1
    call_ns = _agreed_call_ns(prepared, world, done)
    spent_ns = done * call_ns
    while (done < fixed) if fixed is not None else (spent_ns < WARMUP_NS):
        calls = fixed - done if fixed is not None else max(1, math.ceil((WARMUP_NS - spent_ns) / call_ns))
        round_ns = _agreed_call_ns(prepared, world, calls)
        done, spent_ns = done + calls, spent_ns + calls * round_ns
        call_ns = min(call_ns, round_ns)
    return Pace(stopping.calls_per_sample(call_ns, timing_cost_ns), done, call_ns)


def _agreed_call_ns(prepared: PreparedCase, world: World, calls: int) -> float:
    world.barrier()
    look = prepared.time(0, 1, calls)
    return max(1.0, float(world.max(look.elapsed_ns)[0]) / calls)


def _first_look(limits: Limits, pace: Pace) -> tuple[int, int]:
    if limits.calls is not None:
        return stopping.fixed_samples(limits.calls, pace.k)
    return stopping.next_look(0), pace.k


def _next_look(samples: int, limits: Limits) -> int:
    return min(stopping.next_look(samples), max(limits.max_samples, samples + 1))


def _enough(worst_ns: Int64Array, k: int, limits: Limits) -> StopReason | None:
    if limits.calls is not None:
        return StopReason.CALLS
    return stopping.decide(worst_ns / k, float(worst_ns.sum()) / 1e9, limits)
