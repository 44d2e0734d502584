"""Where the level of a series changed, what else changed there, and where it stands. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Final

import numpy as np

from busbw.model.history import Change, Launch, Level, Point, Series
from busbw.stats.change_points import (
    LASTING,
    LEAST,
    LEAST_CHANGE,
    WINDOW,
    find_change,
    likely_places,
    scatter_of,
)
from busbw.stats.interval import Float64Array

# A level changes so many times more often where a version or a node does than elsewhere, at least.
_RATHER: Final = 100.0
_NEARLY: Final = 8.0  # of two places, one is the likelier where it is so many times as likely

Explains = Callable[[Sequence[int]], Mapping[int, Launch]]


def changes_of(
    points: Sequence[Point], known: Sequence[Change], since: int, launches: Explains
) -> list[Change]:
    """The changes that a series shows, where ``known`` are those that its points before ``since`` showed. The
    others come one by one: each can show one change, and say better where a new one was. ``points`` reach
    back for ``WINDOW`` launches before, and ``launches`` gives those of some numbers.
    """
    moments = [point.at for point in points]
    logs = np.log([point.time_ns for point in points])
    changes = list(known)
    for end in range(bisect_left(moments, since) + 1, len(points) + 1):
        start = max(0, end - WINDOW)
        places = [at - start for each in changes if (at := bisect_left(moments, each.at)) > start]
        window, values, now = points[start:end], logs[start:end], moments[end - 1]
        place = find_change(values, places)
        if place is not None:
            changes.append(_change(window, values, [*places, place], now, launches))
        elif places and len(values) - places[-1] < LASTING:
            changes[-1] = _change(window, values, places, changes[-1].found, launches)
    return changes


def _change(
    points: Sequence[Point], logs: Float64Array, places: Sequence[int], found: int, launches: Explains
) -> Change:
    """The last of these. Its place is the likeliest one at which anything else changed, if there is any;
    what changed at a place that is nearly as likely is named too.
    """
    first = places[-2] if len(places) > 1 else 0
    numbers = [point.launch for point in points[first:]]
    known = launches(numbers)
    explains = [known[number].explains for number in numbers]
    likely = likely_places(logs, places, _RATHER)
    explained = {place: words for place in likely if (words := tuple(_changed(explains, place - first)))}
    place = next(iter(explained), next(iter(likely)))
    named = [words for other, words in explained.items() if likely[other] < _NEARLY * likely[place]]
    before, after = logs[first:place], logs[place:]
    return Change(
        points[place].at,
        points[place].launch,
        found,
        math.exp(float(np.median(before))),
        math.exp(float(np.median(after))),
        tuple(chain.from_iterable(named)),
    )


def _changed(explains: Sequence[Mapping[str, str]], place: int) -> Iterator[str]:
    """What had one value in the last launches before the place, and another in all from there on: nodes that
    differ from launch to launch explain nothing. What a launch does not say is no value.
    """
    before, after = explains[max(0, place - LEAST) : place], explains[place:]
    for name in before[-1]:
        was = {each.get(name, "") for each in before}
        now = {each.get(name, "") for each in after}
        if len(was) == len(now) == 1 and was != now and "" not in was | now:
            yield f"{name} {was.pop()} -> {now.pop()}"


def level_of(
    series: Series, points: Sequence[Point], changes: Sequence[Change], accepted: Mapping[int, str]
) -> Level:
    """Where a series stands; ``points`` are its newest (one at least), ``changes`` all of its changes,
    ``accepted`` is as ``Index.accepted``.
    """
    moments = [point.at for point in points]
    logs = np.log([point.time_ns for point in points])
    starts = [0, *(change.at for change in changes)]
    places = [*(bisect_left(moments, start) for start in starts), len(points)]
    known_ns = [changes[0].before_ns, *(change.after_ns for change in changes)] if changes else [0.0]
    levels = [
        float(np.median(logs[first:last])) if last > first else math.log(known)
        for (first, last), known in zip(pairwise(places), known_ns, strict=True)
    ]
    scatter = scatter_of(logs, [place for place in places[1:-1] if place > 0])
    expected = 0
    for at, (start, end) in enumerate(pairwise([*starts, moments[-1] + 1])):
        if levels[at] <= levels[expected] or any(start <= named < end for named in accepted):
            expected = at
    slower = levels[-1] - levels[expected]
    return Level(
        expected_ns=math.exp(levels[expected]),
        now_ns=math.exp(levels[-1]),
        is_lost=slower >= max(LEAST_CHANGE, scatter.deviation),
        deviation=scatter.deviation,
        degrees=scatter.degrees,
        launches=places[expected + 1] - places[expected],
        bus_bytes=series.bus_bytes,
        change=changes[-1] if changes else None,
    )
