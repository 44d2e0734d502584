"""Times: whose mean, whose slowest sample a sentence is about; and what is no answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from busbw_testing.diagnosed import conclusions, digests_of, every_conclusion, sampled

from busbw.judge.diagnose.engine import answer
from busbw.judge.expectation import expect
from busbw.judge.samples import nccl_tests_mean_ns
from busbw.judge.wires import Wires
from busbw.model.conclusion import Answer, Conclusion, Question
from busbw.model.finding import Severity
from busbw.model.record import RunRecord
from busbw.model.sample import MAX_OVER_RANKS, SAMPLE_DTYPE, SampleFlag
from busbw.report import plots_of_run
from busbw.report.reported import Reported

SIZES = tuple(2**power for power in range(8, 14))


def quiet(seed: int = 1, spread: float = 0.003) -> tuple[RunRecord, npt.NDArray[np.void]]:
    draw = np.random.default_rng(seed)
    return sampled({size: 10 * np.exp(draw.normal(0, spread, 100)) for size in SIZES}, ranks=4)


def with_tail() -> tuple[RunRecord, npt.NDArray[np.void]]:
    """Five samples of the first case took 1000 us instead of 10, and were seen to lose their core: the
    case's own mean is without them. A pass of single calls has 400 calls of up to 20 us.
    """
    record, samples = quiet()
    at = np.flatnonzero(samples["case"] == 0)[::20]
    samples["elapsed_ns"][at], samples["flags"][at] = 1_000_000, SampleFlag.DESCHEDULED
    single = np.zeros(400, SAMPLE_DTYPE)
    single["rank"], single["k"], single["flags"] = MAX_OVER_RANKS, 1, SampleFlag.SINGLE_CALL
    single["sample"], single["elapsed_ns"] = np.arange(400), np.linspace(12_000, 20_000, 400)
    results = (replace(record.results[0], excluded=5), *record.results[1:])
    return replace(record, results=results), np.concatenate((samples, single))


def test_mean_and_slowest_of_a_sentence_are_of_the_same_samples() -> None:
    record, samples = with_tail()
    found = conclusions(record, samples=samples)["variance.tails"]
    assert "all_reduce 256 B, all 100 samples of one call: mean 59." in found.claim
    assert "slowest 1.000 ms, their median without disturbed ones 10.00 us" in found.claim
    assert "Of 400 single calls: p99 19.92 us, slowest 20.00 us" in found.evidence
    assert [(fact.value, fact.unit) for fact in found.facts] == [(5, "of 100 samples")]


@pytest.mark.parametrize(
    ("calls", "beyond", "hint"),
    [
        (None, "than was asked for", "give --case-time 5s, or look for what else uses the machine"),
        (20, "than 1.0%", "leave -n out, or give more calls"),  # asks for no interval
    ],
)
def test_wide_intervals_leave_it_undecided(calls: int | None, beyond: str, hint: str) -> None:
    record, samples = quiet(spread=0.2)
    limits = replace(record.plan.limits, calls=calls)
    found = every_conclusion(replace(record, plan=replace(record.plan, limits=limits)), samples=samples)
    precision = next(each for each in found if each.check == "variance.precision")
    assert f"wider {beyond} in 6 of 6 cases" in precision.claim
    assert ("asked for" in precision.claim + precision.evidence) is (calls is None)
    assert precision.hint == hint
    assert answer(Question.VARIANCE, found) is Answer.UNDECIDED


def reported(record: RunRecord, samples: npt.NDArray[np.void]) -> Reported:
    wires = Wires(source="the test")
    return Reported("run", record, expect((record,), ()), wires, {}, (), samples, np.empty(0, samples.dtype))


def test_a_report_has_one_mean() -> None:
    """In its table of spreads and of the histogram: that of all samples."""
    run = reported(*with_tail())
    run = replace(run, conclusions=every_conclusion(run.record, samples=run.samples))
    plots = {plot.title: plot for plot in plots_of_run.evidence_of(run)}
    spread = plots["Spread of all_reduce float sum"].table
    mean = spread.rows[0][spread.head.index("mean")]
    assert mean.startswith("59.")
    histogram = next(plot for plot in plots.values() if plot.kind == "histogram" and "256 B" in plot.title)
    assert dict(histogram.table.rows)["mean of all"] == mean
    assert not any("nccl-tests" in name for name, *_ in histogram.table.rows)  # nobody kept single ranks


def test_the_mean_of_nccl_tests_is_over_ranks_and_not_of_their_maxima() -> None:
    record, samples = with_tail()
    digests = digests_of(record, (0.5, 0.5, 0.5, 1.0))
    run = replace(reported(record, samples), digests=digests)
    run = replace(run, conclusions=every_conclusion(record, samples=samples))
    histogram = next(plot for plot in plots_of_run.evidence_of(run) if plot.kind == "histogram")
    names = dict(histogram.table.rows)
    mean_us = nccl_tests_mean_ns(digests, 0) / 1000  # type: ignore[operator]
    assert mean_us == pytest.approx((record.results[0].time_ns or 0.0) * 0.625 / 1000)
    printed, own = (names[name].split() for name in ("mean over ranks (nccl-tests prints it)", "mean of all"))
    assert printed[1] == own[1] == "us"
    assert float(printed[0]) == pytest.approx(mean_us, rel=0.01)
    assert float(own[0]) > mean_us


def marked(*marks: tuple[str, ...], excluded: int = 0) -> dict[str, Conclusion]:
    """What is said of a run with a case for each tuple of marks."""
    record, samples = sampled({1024 << at: np.full(40, 50.0) for at in range(len(marks))})
    results = (
        replace(result, marks=own, excluded=excluded if own else 0)
        for result, own in zip(record.results, marks, strict=True)
    )
    return conclusions(replace(record, results=tuple(results)), samples=samples)


@pytest.mark.parametrize(
    ("marks", "expected", "claim"),
    [
        ((("unstable",), (), ()), (Answer.ASIDE, Severity.INFO), "unstable in 1 of 3 cases"),
        ((("unstable",), ("unstable",), ()), (Answer.NO, Severity.WARNING), "2 of 3 cases above 50 us are"),
    ],
)
def test_a_run_is_unsteady_where_most_cases_are(
    marks: Any, expected: tuple[Answer, Severity], claim: str
) -> None:
    found = marked(*marks)["variance.unstable"]
    assert (found.answer, found.severity) == expected
    assert found.claim.startswith(claim)


def test_cases_without_an_interval_are_counted() -> None:
    record, samples = sampled({1024 << at: np.full(40, 50.0) for at in range(3)})
    for count, expected in ((1, Answer.YES), (2, Answer.UNDECIDED)):
        short = (replace(each, low_ns=None, high_ns=None) for each in record.results[:count])
        results = (*short, *record.results[count:])
        found = conclusions(replace(record, results=results), samples=samples)["variance.precision"]
        assert f"{count} more had too few independent samples" in found.claim
        assert found.answer is expected


def test_ranks_that_are_late_because_they_were_asked_to_be_are_no_warning() -> None:
    record, samples = quiet()
    record = replace(record, results=tuple(replace(each, conditions=("delayed",)) for each in record.results))
    found = conclusions(record, samples=samples)["variance.delayed"]
    assert (found.severity, found.answer) == (Severity.WARNING, Answer.NO)
    timing = replace(record.plan.timing, mode="latency", arrival="late-one")
    asked = replace(record, plan=replace(record.plan, timing=timing))
    found = conclusions(asked, samples=samples)["variance.delayed"]
    assert (found.severity, found.answer) == (Severity.INFO, Answer.ASIDE)
