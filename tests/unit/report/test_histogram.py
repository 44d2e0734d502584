from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.judge.samples import Distribution, ModeShare, Percentile, Scale
from busbw.model.plan import Plan
from busbw.report import histogram

SPREAD = Distribution(
    case=1,
    single_calls=False,
    samples=104,
    kept=104,
    flagged=0,
    calls_per_sample=3,
    scale=Scale.LINEAR,
    edges_ns=(1000.0, 1500.0, 2000.0, 2500.0),
    counts=(80, 0, 24),
    percentiles=(Percentile(50, 1200.0, 5), Percentile(95, 2500.0, 59), Percentile(99, None, 299)),
    modes=(ModeShare(1150.0, 0.77), ModeShare(2100.0, 0.23)),
)


def test_the_head(plan: Plan) -> None:
    assert histogram.head(plan, SPREAD, "median of x") == [
        "# case     1: all_reduce sum float 1024 B in-place",
        "# time     of one call (us); the run's number is the median of x",
        "# samples  104; a sample is 3 back-to-back calls, so single slow calls are averaged away",
        "# bins     3 of equal width: the largest sample is 2.5 times the smallest",
    ]


def test_flagged_samples_are_drawn_and_not_in_the_percentiles(plan: Plan) -> None:
    flagged = replace(SPREAD, flagged=4, kept=100)
    line = histogram.head(plan, flagged, "median of x")[3]
    assert line.startswith("# flagged  4 samples: ")
    assert line.endswith("; they are in the bins but not in the percentiles")
    assert "p99 n/a (needs 299 samples, has 100)" in histogram.foot(flagged)[0]
    kept = histogram.head(plan, replace(SPREAD, flagged=40), "median of x")[3]
    assert "left out" not in kept


def test_bars_are_in_proportion_and_marked() -> None:
    assert histogram.lines(SPREAD) == [
        "#     from        to    count",
        "      1.00      1.50       80  ********************************  p50 mode",
        "      1.50      2.00        0",
        "      2.00      2.50       24  **********                        p95 mode",
    ]


def test_the_foot() -> None:
    assert histogram.foot(SPREAD) == [
        "# p50 1.20 us, p95 2.50 us, p99 n/a (needs 299 samples, has 104)",
        "# two modes: 1.15 us (77%) and 2.10 us (23%); the median lies in the larger one",
    ]
    assert len(histogram.foot(replace(SPREAD, modes=()))) == 1


@pytest.mark.parametrize(
    ("spread", "line"),
    [
        (replace(SPREAD, scale=Scale.LOG), "3 of equal ratio (logarithmic): the largest sample is 2.5 times"),
        (replace(SPREAD, edges_ns=(5.0, 5.0), counts=(104,)), "1: all samples are equal"),
        (replace(SPREAD, edges_ns=(0.0, 1.0, 2.0, 3.0)), "3 of equal width: the largest sample is inf times"),
    ],
)
def test_the_bins_are_named(plan: Plan, spread: Distribution, line: str) -> None:
    assert line in histogram.head(plan, spread, "")[-1]
    assert len(histogram.lines(spread)) == len(spread.counts) + 1


@pytest.mark.parametrize("width_ns", [0.01, 1.0, 37.0, 1e5, 1e9])
def test_edges_that_differ_look_different(width_ns: float) -> None:
    edges = tuple(1e6 + width_ns * i for i in range(4))
    shown = [line.split()[0] for line in histogram.lines(replace(SPREAD, edges_ns=edges))[1:]]
    assert len(set(shown)) == 3


def test_the_pass_of_single_calls_says_what_it_is(plan: Plan) -> None:
    single = replace(SPREAD, single_calls=True, calls_per_sample=1)
    assert histogram.head(plan, single, "")[2] == (
        "# samples  104; a separate pass with one call a sample; the run's number does not use it"
    )
