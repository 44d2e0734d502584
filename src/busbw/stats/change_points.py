"""Where the level of a series of launches changed.

E-divisive (Matteson and James 2014) proposes: of all places where the series can be split it takes the one
whose two sides are furthest apart by their energy distance. That is the weak pass, which always finds
something. The strong test decides: Student's t of the two means, with the deviation that launches had about
their levels before, no matter when, and with their autocorrelation, which makes runs of like launches usual.
Values far from the level count as less far, so that a few odd launches make no level. benchmarks/history has
the table of how often this errs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.stats.interval import Float64Array
from busbw.stats.launches import student_cdf

Places = npt.NDArray[np.int64]

WINDOW: Final = 100  # launches that are looked at: a machine that was mended forgets
LEAST: Final = 3  # launches that make a level
KNOWN: Final = 8  # launches before it, of which the scatter is known
FALSE_ALARM: Final = 5e-4  # of the first look at a place
# A smaller change is none, however well it is seen: nobody looks for it.
LEAST_CHANGE, LEAST_DEVIATIONS = 0.01, 1.25
# A level that did not last for so many launches is scatter when the next change is looked for.
LASTING: Final = 10
_BESIDE: Final = 2  # launches from the proposed place in which the likeliest is taken
_FAR: Final = 3.5  # deviations from the level, beyond which a launch counts as so far
_TOGETHER: Final = 4.0  # deviations from the first to the last of few launches that are a new level
_MOST_ALIKE: Final = 0.95  # autocorrelation
_BY_CHANCE, _UPPER_END = 1.65, 2.0  # standard errors of it
_LEAST_DEVIATION: Final = 1e-4  # launches are not known to be more alike than this
_QUANTILE, _OF_NORMAL = 0.8, 1.2816  # of |x| of normal x: holds with one in five on another level
_LIKELY: Final = 6.0  # twice the logarithm of the likelihood ratio that leaves a place possible


@dataclass(frozen=True)
class Scatter:
    """How launches lie about their levels: standard deviation with its degrees of freedom, correlation of
    neighbours (0 or more), and the robust deviation by which far launches are known.
    """

    deviation: float
    degrees: int
    alike: float
    robust: float


def find_change(values: Float64Array, known: Sequence[int]) -> int | None:
    """Where the newest level of a series changed: the position of the new level's first launch, or None.
    ``values`` are in order (logarithms of launch times: differences are shares), at most ``WINDOW`` of them;
    ``known`` are the places of earlier changes.
    """
    first = known[-1] if known else 0
    level = values[first:]
    if len(level) < 2 * LEAST or len(values) < KNOWN + LEAST:
        return None
    proposed = _furthest_apart(level)
    if first + proposed < KNOWN:
        return None
    scatter = scatter_of(values, known, first + proposed)
    centre = float(np.median(level[:proposed]))
    near = np.clip(level, centre - _FAR * scatter.robust, centre + _FAR * scatter.robust)
    places = np.arange(max(LEAST, proposed - _BESIDE), min(len(level) - LEAST, proposed + _BESIDE) + 1)
    t_values = _t_values(near, places, scatter)
    best = int(np.argmax(t_values))
    place = int(places[best])
    by_chance = 2 * (1 - student_cdf(float(t_values[best]), scatter.degrees))
    # A place is looked at again with every launch that follows it: later looks have less to spend.
    if by_chance > FALSE_ALARM * LEAST / (len(level) - place):
        return None
    moved = float(np.median(level[place:]) - np.median(level[:place]))
    if abs(moved) < max(LEAST_CHANGE, LEAST_DEVIATIONS * scatter.deviation):
        return None
    is_short = len(level) - place < 2 * LEAST
    if is_short and np.ptp(level[place:]) > _TOGETHER * scatter.deviation:
        return None
    return first + place


def likely_places(values: Float64Array, known: Sequence[int]) -> tuple[int, ...]:
    """Where the last of the ``known`` changes may have been, the likeliest place first."""
    first, at = (known[-2] if len(known) > 1 else 0), known[-1]
    level = values[first:]
    scatter = scatter_of(values, known[:-1], at)
    centre = float(np.median(level[: at - first]))
    near = np.clip(level, centre - _FAR * scatter.robust, centre + _FAR * scatter.robust)
    places = np.arange(max(1, at - first - LEAST), min(len(level) - 1, at - first + LEAST) + 1)
    t_values = _t_values(near, places, scatter)
    ordered = [int(at) for at in np.argsort(-t_values, kind="stable")]
    least = float(t_values[ordered[0]]) ** 2 - _LIKELY
    return tuple(first + int(places[at]) for at in ordered if t_values[at] ** 2 >= least)


def scatter_of(values: Float64Array, known: Sequence[int], end: int | None = None) -> Scatter:
    """Of the launches about their levels: those before ``end``, where what follows is too short to be one."""
    count = len(values)
    last = count if end is None or count - end >= LASTING else end
    ends = [0]
    for place in (*known, *(() if end is None else (end,))):
        if place < last and place - ends[-1] >= LASTING:
            ends.append(place)
    if len(ends) > 1 and last - ends[-1] < LASTING:
        ends.pop()
    parts = [values[start:stop] for start, stop in zip(ends, [*ends[1:], last], strict=True)]
    rests = np.concatenate([part - np.median(part) for part in parts])
    size = int(_QUANTILE * (len(rests) - 1))
    robust = max(float(np.partition(np.abs(rests), size)[size]) / _OF_NORMAL, _LEAST_DEVIATION)
    rests = np.clip(rests, -_FAR * robust, _FAR * robust)
    rests -= float(rests.mean())
    squares = float(rests @ rests)
    alike = _alike(rests)
    degrees = max(last - len(parts), 1)
    return Scatter(
        max(math.sqrt(squares / degrees), _LEAST_DEVIATION),
        degrees,
        alike,
        robust,
    )


def _alike(rests: Float64Array) -> float:
    """The correlation of neighbours: its upper end, for what runs of like launches cost, where it is there at
    all; 0 where chance makes as much.
    """
    squares = float(rests @ rests)
    found = float(rests[1:] @ rests[:-1]) / squares if squares else 0.0
    error = 1 / math.sqrt(len(rests))
    return min(found + _UPPER_END * error, _MOST_ALIKE) if found > _BY_CHANCE * error else 0.0


def _furthest_apart(values: Float64Array) -> int:
    """The place of the split whose sides are the furthest apart by their energy distance times m n / (m + n)
    (Matteson and James, equation 5, with alpha 1). The sums over pairs come from one cumulative table.
    """
    apart = np.abs(values[:, None] - values[None, :]).cumsum(0).cumsum(1)
    n = np.arange(LEAST, len(values) - LEAST + 1)
    m = len(values) - n
    first = apart[n - 1, n - 1]
    between = apart[n - 1, -1] - first
    second = apart[-1, -1] - first - 2 * between
    energy = 2 * between / (n * m) - first / (n * n) - second / (m * m)
    return int(n[np.argmax(n * m / (n + m) * energy)])


def _t_values(
    values: Float64Array, places: np.ndarray[tuple[int], np.dtype[np.int64]], scatter: Scatter
) -> Float64Array:
    """|t| of the two means, for a split at each place."""
    sums = values.cumsum()
    n, m = places, len(values) - places
    before, after = sums[n - 1] / n, (sums[-1] - sums[n - 1]) / m
    shares = _of_mean(n, scatter.alike) + _of_mean(m, scatter.alike)
    found: Float64Array = np.abs(after - before) / (scatter.deviation * np.sqrt(shares))
    return found


def _of_mean(n: Places, alike: float) -> Float64Array:
    """The variance of the mean of n values of an AR(1) process, in units of that of one."""
    own: Float64Array = (1 + alike) / (1 - alike) - 2 * alike * (1 - alike**n) / (n * (1 - alike) ** 2)
    return own / n
