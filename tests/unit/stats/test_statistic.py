from __future__ import annotations

import numpy as np
import pytest

from busbw.errors import UsageError
from busbw.stats.statistic import Series, parse_statistics

WORST = np.array([4.0, 1.0, 3.0, 2.0, 10.0])
SERIES = Series(WORST, WORST - np.array([1.0, 0.0, 2.0, 0.5, 5.0]))


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("avg", 4.0),
        ("min", 1.0),
        ("max", 10.0),
        ("p50", 3.0),
        ("cv", 12.5**0.5 / 4),  # squared deviations 0 + 9 + 1 + 4 + 36, over n - 1
        ("imbalance", 1.0),
        ("p99", None),
        ("p99.9", None),
    ],
)
def test_each_word(word: str, value: float | None) -> None:
    (statistic,) = parse_statistics(word)
    assert statistic.of(SERIES) == (None if value is None else pytest.approx(value))


def test_what_the_samples_do_not_show_is_unknown() -> None:
    p99, imbalance = parse_statistics("p99,imbalance")
    assert p99.least_samples == 299
    assert [p99.of(Series(np.arange(samples))) for samples in (298.0, 299.0)] == [None, 296.0]
    assert imbalance.of(Series(WORST)) is None  # without the fastest rank


def test_words_keep_their_order_and_come_once() -> None:
    words = [statistic.word for statistic in parse_statistics(" P99.9, avg p50,avg\tmin")]
    assert words == ["p99.9", "avg", "p50", "min"]


@pytest.mark.parametrize("text", ["", "  ", "median", "p", "p0", "p100", "p-1", "p101", "avg,,nope", "p1e1"])
def test_what_is_no_statistic_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_statistics(text)
    assert error.value.hint
