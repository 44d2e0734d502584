"""Arithmetic of clock synchronisation: bounds from exchanges, a line through them, the tree. Pure.

Names follow the exchange: a child reads its clock (``sent_ns``), the parent answers with a reading of the
global clock (``answered_ns``), the child reads its clock again (``received_ns``). The answer was read between
the two, whatever the paths to and fro took, so at that moment

    answered - received <= global - local <= answered - sent.

Over several exchanges the largest lower and the smallest upper limit stay (SKaMPI: Worsch, Reussner,
Augustin, EuroPVM/MPI 2002). The line through such offsets and the order of the tree follow HCA3 (Hunold and
Carpen-Amarie, CLUSTER 2018).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]

# Standard errors of the slope. Three would do if the points erred independently; they do not, where a rank is
# moved to another core in mid-fit (benchmarks/clock has how often the result was kept).
_SLOPE_ERRORS = 6.0
# What crystals are specified to keep is 25 to 100 ppm; NTP keeps machines far closer.
_USUAL_DRIFT = 1e-4


@dataclass(frozen=True, slots=True)
class Line:
    """Global time as a function of local time: global = local + offset + drift x (local - origin).

    The offset is an integer: it is the difference of two uptimes, and float64 loses nanoseconds beyond 104
    days. ``drift`` has no unit (1e-6 is 1 ppm); ``drift_error`` is six standard errors of it.
    """

    origin_ns: int
    offset_ns: int
    drift: float
    drift_error: float = 0.0

    def at(self, local_ns: int) -> int:
        """The global time of one reading."""
        return local_ns + self.offset_ns + round(self.drift * (local_ns - self.origin_ns))

    def of(self, local_ns: Int64Array) -> Int64Array:
        """The global times of many readings, any shape."""
        gained: Int64Array = np.rint(self.drift * (local_ns - self.origin_ns)).astype(np.int64)
        return np.asarray(local_ns + self.offset_ns + gained, dtype=np.int64)


IDENTITY = Line(0, 0, 0.0)


@dataclass(frozen=True, slots=True)
class Exchanges:
    """One burst: three readings of each exchange, shape (n,) with n >= 1."""

    sent_ns: Int64Array
    answered_ns: Int64Array
    received_ns: Int64Array


@dataclass(frozen=True, slots=True)
class Offset:
    """Global minus estimated time is between ``low_ns`` and ``high_ns`` at the local time ``at_ns``.

    ``low_ns`` > ``high_ns`` is possible: the clock stepped between two exchanges of the burst.
    """

    at_ns: int
    low_ns: int
    high_ns: int

    @property
    def error_ns(self) -> int:
        """No error that the burst allows is larger."""
        return max(abs(self.low_ns), abs(self.high_ns))

    def excess_ns(self, promised_ns: float) -> float:
        """How far every allowed error lies beyond +-``promised_ns``; 0 where one of them does not."""
        low_ns, high_ns = sorted((self.low_ns, self.high_ns))
        return max(0.0, low_ns - promised_ns, -high_ns - promised_ns)


def offset(burst: Exchanges, estimate: Line = IDENTITY) -> Offset:
    """What ``burst`` says about the global time minus ``estimate``'s."""
    low_ns = burst.answered_ns - estimate.of(burst.received_ns)
    high_ns = burst.answered_ns - estimate.of(burst.sent_ns)
    tightest_low, tightest_high = int(low_ns.argmax()), int(high_ns.argmin())
    first_ns, second_ns = int(burst.received_ns[tightest_low]), int(burst.sent_ns[tightest_high])
    return Offset(
        at_ns=first_ns + (second_ns - first_ns) // 2,
        low_ns=int(low_ns[tightest_low]),
        high_ns=int(high_ns[tightest_high]),
    )


def fit(bursts: Sequence[Exchanges]) -> Line:
    """The line through the middles of the bursts' offsets, each weighted by 1 / half-width^2.

    Needs at least three bursts at different times. Fitted twice: the clocks drift between the
    exchanges of a burst that lasts long under load, which feigns a narrow offset; the first line takes that
    out for the second.
    """
    line = IDENTITY
    for _ in range(2):
        line = _through([offset(burst, line) for burst in bursts], line)
    return line


def _through(points: Sequence[Offset], estimate: Line) -> Line:
    """Weighted least squares, with the knowledge that drifts are of the order of ``_USUAL_DRIFT``.

    Over a quiet link that knowledge weighs nothing. Over one whose delays jump by milliseconds a quarter of a
    second gives no slope to speak of, and no drift is then the better estimate.
    """
    origin_ns = points[len(points) // 2].at_ns
    totals = [point.low_ns + estimate.at(point.at_ns) - point.at_ns for point in points]
    base_ns = totals[len(points) // 2]
    # Differences first: as float64, times and offsets themselves would lose nanoseconds.
    at = np.array([point.at_ns - origin_ns for point in points], dtype=np.float64)
    widths = [(point.high_ns - point.low_ns) / 2 for point in points]
    middle = np.array([total - base_ns for total in totals], dtype=np.float64) + widths
    # A width of 0 happens where a clock ticks coarsely; it must not outweigh everything.
    weight = np.array([max(abs(width), 1.0) for width in widths]) ** -2.0
    mean_at, mean_middle = np.average(at, weights=weight), np.average(middle, weights=weight)
    at, middle = at - mean_at, middle - mean_middle
    spread, slope_spread = float((weight * at**2).sum()), float((weight * at * middle).sum())
    residual = middle - slope_spread / spread * at
    variance = float((weight * residual**2).sum()) / (len(points) - 2)
    known = variance / _USUAL_DRIFT**2
    slope = slope_spread / (spread + known)
    return Line(
        origin_ns=origin_ns,
        offset_ns=base_ns + round(mean_middle - slope * mean_at),
        drift=slope,
        drift_error=_SLOPE_ERRORS * math.sqrt(variance / (spread + known)),
    )


def leaders_of(sources: Sequence[Hashable]) -> tuple[int, ...]:
    """For each rank the lowest rank with the same clock, from every rank's clock source."""
    first: dict[Hashable, int] = {}
    return tuple(first.setdefault(source, rank) for rank, source in enumerate(sources))


def parent_of(place: int) -> int:
    """The parent of the leader at ``place`` > 0: ``place`` without its highest bit.

    A parent at a lower place has its own line before the round of its child (number: the highest bit), so it
    can answer with the global clock; ceil(log2(leaders)) rounds.
    """
    return place - (1 << (place.bit_length() - 1))


def children_of(place: int, leaders: int) -> list[int]:
    """The children of the leader at ``place``, in the order of their rounds."""
    children = []
    bit = 1 << place.bit_length()
    while place + bit < leaders:
        children.append(place + bit)
        bit <<= 1
    return children


def path_drift_error(place: int, drift_errors: Sequence[float]) -> float:
    """Sum of the slopes' errors from the root down to ``place``; ``drift_errors[p]`` is p's own fit's."""
    total = 0.0
    while place > 0:
        total += drift_errors[place]
        place = parent_of(place)
    return total
