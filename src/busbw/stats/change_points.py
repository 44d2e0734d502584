"""Where the level of a series of launches changed.

Of all places where the newest level can be split, the one is proposed whose two sides have the furthest
means, by their standard errors. Each later launch then says how much likelier it is on the new level than on
the old one; the sum is the logarithm of a likelihood ratio (as in CUSUM, Page 1954), for the proposed place
and for those beside it. As a t value it is held against Student's distribution, with the deviation that
launches had about their levels before, no matter when, and with their autocorrelation, which makes runs of
like launches usual. Launches are normal, or with a small probability (``_FLAT``) anywhere: far ones say
little, so that a few odd launches make no level. benchmarks/history has the table of how often this errs.
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
FALSE_ALARM: Final = 8e-4  # of the first look at a place
# A smaller change is none, however well it is seen: nobody looks for it.
LEAST_CHANGE, LEAST_DEVIATIONS = 0.01, 1.5
# A level that did not last for so many launches is scatter when the next change is looked for.
LASTING: Final = 10
_FAR: Final = 3.5  # deviations from the level, beyond which a launch counts as so far
# The most that one launch says for a level, as a logarithm: less than what an alarm takes, so that it takes
# two at least.
_FLAT: Final = 5.5
_MOST_ALIKE: Final = 0.95  # autocorrelation
_BY_CHANCE, _UPPER_END = 1.65, 2.0  # standard errors of it
_LEAST_DEVIATION: Final = 1e-4  # launches are not known to be more alike than this
_QUANTILE, _OF_NORMAL = 0.8, 1.2816  # of |x| of normal x: holds with one in five on another level


@dataclass(frozen=True)
class Scatter:
    """How launches lie about their levels: standard deviation with its degrees of freedom, correlation of
    neighbours (0 or more), and the robust deviation by which far launches are known.
    """

    deviation: float
    degrees: int
    alike: float
    robust: float


@dataclass(frozen=True)
class _Split:
    """The likeliest place of a change, with its t value, what both mean and median moved by at least, and the
    scatter about the levels. ``gains`` are log likelihood ratios of a change at each place of the series
    against none, -inf where the level before would be too short.
    """

    place: int
    t_value: float
    moved: float
    scatter: Scatter
    gains: Float64Array


def find_change(values: Float64Array, known: Sequence[int]) -> int | None:
    """Where the newest level of a series changed: the position of the new level's first launch, or None.
    ``values`` are in order (logarithms of launch times: differences are shares), at most ``WINDOW`` of them;
    ``known`` are the places of earlier changes.
    """
    split = _split(values, known)
    if split is None or split.moved < max(LEAST_CHANGE, LEAST_DEVIATIONS * split.scatter.deviation):
        return None
    by_chance = 2 * (1 - student_cdf(split.t_value, split.scatter.degrees))
    # A place is looked at again with every launch that follows it: later looks have less to spend.
    return split.place if by_chance <= FALSE_ALARM * LEAST / (len(values) - split.place) else None


def likely_places(values: Float64Array, known: Sequence[int], ratio: float) -> dict[int, float]:
    """Where the last of the ``known`` changes may have been, the likeliest place first: by place, how many
    times less likely it is than the first, below ``ratio``.
    """
    split = _split(values, known[:-1])
    if split is None:
        return {known[-1]: 1.0}
    gains = split.gains - split.gains.max()
    likely = np.flatnonzero(gains > -math.log(ratio))
    ordered = sorted(likely.tolist(), key=lambda place: -gains[place])
    return {place: math.exp(-gains[place]) for place in ordered}


def _split(values: Float64Array, known: Sequence[int]) -> _Split | None:
    """None where either side would be too short."""
    first = known[-1] if known else 0
    level = values[first:]
    places = np.arange(max(LEAST, KNOWN - first), len(level) - LEAST + 1)
    if not len(places):
        return None
    proposed = int(places[_t_values(level, places, scatter_of(values, known)).argmax()])
    scatter = scatter_of(values, known, first + proposed)
    before = _mean(level[:proposed], scatter.deviation)
    after = _mean(level[proposed:], scatter.deviation)
    says = _log_density(level, after, scatter.deviation) - _log_density(level, before, scatter.deviation)
    gains = says[::-1].cumsum()[::-1]
    place = int(places[gains[places].argmax()])
    count = len(level) - place
    shares = _of_mean(np.array([place, count]), scatter.alike).sum()
    t_value = math.sqrt(2 * max(0.0, float(gains[place])) / count / shares)
    every = np.full(len(values), -math.inf)
    every[first + places[0] :] = gains[places[0] :]
    medians = np.median(level[place:]) - np.median(level[:place])
    moved = min(abs(after - before), abs(float(medians)))
    return _Split(first + place, t_value, moved, scatter, every)


def _mean(values: Float64Array, deviation: float) -> float:
    """Of the launches of one level: each counts as likely as it is of it."""
    squares = ((values - np.median(values)) / deviation) ** 2
    weights = 1 / (1 + np.exp(np.minimum(squares / 2 - _FLAT, 700.0)))
    return float(weights @ values / weights.sum())


def _log_density(values: Float64Array, level: float, deviation: float) -> Float64Array:
    """Of launches of a level, but for a constant: normal, or anywhere."""
    found: Float64Array = np.logaddexp(-(((values - level) / deviation) ** 2) / 2, -_FLAT)
    return found


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
    # The correlation of neighbours: its upper end, for what runs of like launches cost, where it is there at
    # all; 0 where chance makes as much.
    found = float(rests[1:] @ rests[:-1]) / squares if squares else 0.0
    error = 1 / math.sqrt(len(rests))
    alike = min(found + _UPPER_END * error, _MOST_ALIKE) if found > _BY_CHANCE * error else 0.0
    degrees = max(last - len(parts), 1)
    return Scatter(max(math.sqrt(squares / degrees), _LEAST_DEVIATION), degrees, alike, robust)


def _t_values(values: Float64Array, places: Places, scatter: Scatter) -> Float64Array:
    """|t| of the two means, for a split at each place, in any unit."""
    middle = float(np.median(values))
    sums = np.clip(values, middle - _FAR * scatter.robust, middle + _FAR * scatter.robust).cumsum()
    n, m = places, len(values) - places
    before, after = sums[n - 1] / n, (sums[-1] - sums[n - 1]) / m
    shares = _of_mean(n, scatter.alike) + _of_mean(m, scatter.alike)
    found: Float64Array = np.abs(after - before) / np.sqrt(shares)
    return found


def _of_mean(n: Places, alike: float) -> Float64Array:
    """The variance of the mean of n values of an AR(1) process, in units of that of one."""
    own: Float64Array = (1 + alike) / (1 - alike) - 2 * alike * (1 - alike**n) / (n * (1 - alike) ** 2)
    return own / n
