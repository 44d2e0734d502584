"""The words with which a statistic of a case is asked for, as avg, cv, imbalance, last, p50 and p99.9."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from busbw.errors import UsageError
from busbw.stats.interval import Float64Array, median
from busbw.stats.percentile import at_most, least_samples, percentile

LAST: Final = "last"
OF_ENDS: Final = ("imbalance", LAST)  # of the slowest and the fastest rank


@dataclass(frozen=True)
class Series:
    """The samples of a case: per sample the maximum over ranks and, where it was kept, the minimum.

    Both in one unit and in the order in which they were taken; at least one sample.
    """

    worst: Float64Array
    best: Float64Array | None = None


@dataclass(frozen=True)
class Statistic:
    """One number of a case. ``of`` gives None where the series does not show it: with fewer samples than
    ``least_samples`` ("n too small"), or where the values it needs were not kept. ``of_means``: samples that
    are means over several calls show it as well as single calls do. ``at_most`` gives what bounds a high
    percentile.
    """

    word: str
    least_samples: int
    of: Callable[[Series], float | None]
    of_means: bool = False
    at_most: Callable[[Series], float | None] = lambda series: None


def _cv(series: Series) -> float | None:
    mean = math.fsum(series.worst) / len(series.worst)
    if len(series.worst) < 2 or mean == 0:
        return None
    squares = math.fsum((value - mean) ** 2 for value in series.worst.tolist())
    return math.sqrt(squares / (len(series.worst) - 1)) / mean


# One row a word; all but ``imbalance`` and ``last`` are of the maximum over ranks, per sample. ``last`` is of
# the minimum: where no rank can leave before the last one has entered, the time from the last arrival.
_TABLE: Final = {
    row.word: row
    for row in (
        Statistic("avg", 1, lambda s: math.fsum(s.worst) / len(s.worst), of_means=True),
        Statistic("min", 1, lambda s: float(s.worst.min())),
        Statistic("max", 1, lambda s: float(s.worst.max())),
        Statistic("cv", 2, _cv),
        Statistic(
            "imbalance", 1, lambda s: None if s.best is None else median(s.worst - s.best), of_means=True
        ),
        Statistic(LAST, 1, lambda s: None if s.best is None else median(s.best)),
    )
}
_PERCENTILE: Final = re.compile(r"p(\d+(?:\.\d+)?)")
WORDS: Final = (*_TABLE, "p50", "p99", "p99.9")


def parse_statistics(text: str, others: Sequence[str] = ()) -> tuple[Statistic, ...]:
    """The statistics named in ``text``, separated by commas or spaces, in its order and each once.

    Raises UsageError for a word that is none, and for percentiles outside 0 to 100; its hint has ``others``,
    which the caller takes beside them.
    """
    words = re.split(r"[\s,]+", text.strip().lower())
    if words == [""]:
        raise UsageError("no statistic given", hint=_hint(others))
    return tuple(_statistic(word, others) for word in dict.fromkeys(words))


def _hint(others: Sequence[str]) -> str:
    return f"name some of {', '.join((*WORDS, *others))}"


def _statistic(word: str, others: Sequence[str]) -> Statistic:
    if word in _TABLE:
        return _TABLE[word]
    match = _PERCENTILE.fullmatch(word)
    if match is None:
        raise UsageError(f"not a statistic: {word!r}", hint=_hint(others))
    percent = float(match.group(1))
    bound = (lambda series: at_most(series.worst, percent)) if percent > 50 else Statistic.at_most
    of = lambda series: percentile(series.worst, percent)  # noqa: E731
    return Statistic(word, least_samples(percent), of, at_most=bound)
