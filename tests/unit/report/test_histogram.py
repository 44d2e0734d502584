"""The samples of a case as a plot: bins, what they are of, and the times that are made of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from busbw.judge.samples import Distribution, ModeShare, Percentile, Scale
from busbw.model.plan import Plan
from busbw.model.result import CaseResult, Status
from busbw.model.sample import DIGEST_DTYPE
from busbw.report.plots import Plot
from busbw.report.plots_of_run import histogram
from busbw.report.text_plots import drawing

SPREAD = Distribution(
    case=1, single_calls=False, samples=104, kept=104, flagged=0, calls_per_sample=3, scale=Scale.LINEAR,
    edges_ns=(1000.0, 1500.0, 2000.0, 2500.0), counts=(80, 0, 24),
    percentiles=(Percentile(50, 1200.0, 5), Percentile(95, 2500.0, 59), Percentile(99, None, 299)),
    modes=(ModeShare(1150.0, 0.77), ModeShare(2100.0, 0.23)),
)  # fmt: skip
NO_DIGESTS = np.empty(0, DIGEST_DTYPE)


def drawn(plan: Plan, spread: Distribution, result: CaseResult | None = None) -> Plot:
    return histogram("run", plan.cases[1], result, spread, NO_DIGESTS)


def test_a_case_has_its_bins_and_what_is_known_of_its_samples(plan: Plan) -> None:
    plot = drawn(plan, SPREAD, CaseResult(1, Status.GOOD, time_ns=1200.0))
    assert plot.title == "Samples of all_reduce float, 1 KiB, in-place"
    assert plot.note == "104 samples of 3 calls each."
    assert drawing(plot, 80) == [
        f"1.000 us to 1.500 us: 80 samples  {'*' * 32}",
        " 1.500 us to 2.000 us: 0 samples",
        f"2.000 us to 2.500 us: 24 samples  {'*' * 10}",
    ]
    assert dict(plot.table.rows) == {
        "samples": "104",
        "calls a sample": "3",
        "median": "1.200 us",
        "p50": "1.200 us",
        "p95": "2.500 us",
        "p99": "needs 299 samples",
        "mode near 1.150 us": "77%",
        "mode near 2.100 us": "23%",
    }
    single = drawn(plan, replace(SPREAD, single_calls=True, calls_per_sample=1))
    assert single.note == (
        "104 samples of one call each. A separate pass, which the run's number does not use."
    )


def test_samples_that_are_all_equal_are_one_bar(plan: Plan) -> None:
    assert drawing(drawn(plan, replace(SPREAD, edges_ns=(5.0, 5.0), counts=(104,))), 80) == [
        f"5.000 ns to 5.000 ns: 104 samples  {'*' * 32}"
    ]


@pytest.mark.parametrize("width_ns", [0.01, 1.0, 37.0, 1e5, 1e9])
def test_edges_that_differ_look_different(plan: Plan, width_ns: float) -> None:
    edges = tuple(1e6 + width_ns * i for i in range(4))
    rows = drawn(plan, replace(SPREAD, edges_ns=edges)).rows
    assert len({row["text"].partition(" to ")[0] for row in rows}) == 3
