from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.model.choice import Choice
from busbw.model.result import FIELD_WORDS, CaseResult, Status, StopReason
from busbw.report.columns import format_time_us, result_columns
from busbw.stats.statistic import WORDS

TIMED = CaseResult(
    0,
    Status.GOOD,
    time_ns=50_000.0,
    low_ns=49_000.0,
    high_ns=51_000.0,
    mean_ns=50_000.0,
    samples=320,
    issue_ns=1_234.0,
    skew_ns=12_345.0,
    first_call_ns=9_876_543.0,
    finished="2026-01-02T03:04:05.678+00:00",
    stats={"p99": 75_250.0, "p99.9": None, "cv": 0.0312, "imbalance": 4_200.0, "avg": 51_000.0, "min": None},
)
UNTIMED = CaseResult(0, Status.NOT_APPLICABLE)


def shown(word: str, result: CaseResult) -> str:
    """The value under the one column that ``word`` adds."""
    plain, more = result_columns(()), result_columns((word,))
    (column,) = (column for column in more if column not in plain)
    return column.cell(result)


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [(5.0, "0.01"), (99_994.0, "99.99"), (100_000.0, "100.0"), (9_999_940.0, "9999.9"), (2.5e9, "2500000")],
)
def test_times_have_the_digits_of_nccl_tests(time_ns: float, text: str) -> None:
    assert format_time_us(time_ns) == text


@pytest.mark.parametrize(
    ("word", "value"),
    [
        *(("p99", "75.25"), ("cv", "3.12%"), ("imbalance", "4.20"), ("avg", "51.00"), ("n", "320")),
        *(("issue", "1.23"), ("skew", "12.35"), ("first", "9876.5"), ("timestamp", "03:04:05.678")),
        # What the samples cannot tell: so many single calls it would take.
        *(("p99.9", "n<2995"), ("p50", "n<5"), ("p90", "n<29"), ("min", "n/a"), ("max", "n/a")),
    ],
)
def test_values(word: str, value: str) -> None:
    assert shown(word, TIMED) == value
    if word in ("skew", "issue", "first"):
        assert shown(word, UNTIMED) == "n/a"


@pytest.mark.parametrize("word", [*WORDS, *FIELD_WORDS, "timestamp"])
def test_every_word_is_one_column_between_time_and_bandwidth(word: str) -> None:
    titles = [column.title for column in result_columns((word,))]
    assert titles[:2] == ["time", "+-"]
    assert titles[3:] == ["algbw", "busbw", "#wrong"]
    column = result_columns((word,))[2]
    assert max(len(column.title), len(column.unit)) <= column.width


@pytest.mark.parametrize(
    ("algorithm", "choice", "words", "channels"),
    [
        ("RING LL", Choice("profiler v5", "RING", "LL", channels=24), "RING LL", "24"),
        ("", Choice("profiler v5", functions=("Send", "Recv"), channels=8), "Send+Recv", "8"),
        ("RING LL", Choice("profiler v3", "RING", "LL"), "RING LL", "not observed"),
        ("ring", None, "ring", "not observed"),  # of an imported log
        ("", None, "not observed", "not observed"),
    ],
)
def test_what_the_library_chose(algorithm: str, choice: Choice | None, words: str, channels: str) -> None:
    result = replace(TIMED, algorithm=algorithm, choice=choice)
    assert (shown("algorithm", result), shown("channels", result)) == (words, channels)


@pytest.mark.parametrize(
    ("samples", "stop", "tau", "words"),
    [
        (5, StopReason.CALLS, 1.0, "n<6"),
        (5, StopReason.CASE_TIME, 1.0, "n<8"),
        # A look is judged at 99 %, which 6 samples cannot give, however independent they are.
        (6, StopReason.CASE_TIME, 1.0, "n<8"),
        (7, StopReason.BUDGET, 1.0, "n<8"),
        (100, StopReason.CASE_TIME, 20.0, "drifts"),
        (100, StopReason.CALLS, 20.0, "drifts"),
        (3, None, None, "n<6"),  # a log of another tool
        (20, None, None, ""),
    ],
)
def test_no_interval_says_how_many_samples_it_takes(
    samples: int, stop: StopReason | None, tau: float | None, words: str
) -> None:
    interval = result_columns(())[1].cell
    few = replace(TIMED, low_ns=None, high_ns=None, samples=samples, stop=stop, tau=tau)
    assert interval(few) == words
    assert interval(TIMED) == "2.0%"
    assert interval(replace(TIMED, time_ns=None)) == interval(replace(TIMED, time_ns=0.0)) == ""
