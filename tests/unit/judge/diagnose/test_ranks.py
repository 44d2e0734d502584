"""Is every rank the same: each case against its own noise, and what is not judged at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from busbw_testing.compared import record_of
from busbw_testing.diagnosed import conclusions, digests_of, every_conclusion, sampled

from busbw.errors import ExitCode
from busbw.judge.diagnose.engine import answer, exit_code
from busbw.judge.diagnose.variance import UNSTABLE
from busbw.model.conclusion import Answer, Question
from busbw.model.finding import Severity
from busbw.model.record import RunRecord

SIZES = (1024, 4096, 16384)


def digests(record: RunRecord, factors: dict[int, tuple[float, ...]]) -> npt.NDArray[np.void]:
    """Of the cases by number; all ranks alike where none is given."""
    rows = digests_of(record, (1.0, 1.0, 1.0, 1.0))
    for case, own in factors.items():
        for rank, factor in enumerate(own):
            rows["median_ns"][(rows["case"] == case) & (rows["rank"] == rank)] *= factor
    return rows


def noisy_at(case: int, half: float) -> RunRecord:
    """Intervals of 0.5 % to either side, but for one case."""
    record = record_of(dict.fromkeys(SIZES, 50.0), ranks=4, within=0.005)
    results = list(record.results)
    time = results[case].time_ns or 0.0
    results[case] = replace(results[case], low_ns=time * (1 - half), high_ns=time * (1 + half))
    return replace(record, results=tuple(results))


def test_the_case_furthest_beyond_its_own_noise_is_told() -> None:
    """Another one has a larger spread, and noise that allows for it."""
    record = noisy_at(0, 0.5)
    found = every_conclusion(
        record, digests=digests(record, {0: (1.0, 1.0, 1.0, 1.5), 1: (1.0, 1.0, 1.0, 1.1)})
    )
    spread = next(each for each in found if each.check == "ranks.spread")
    assert spread.claim.startswith("ranks differ by 10.0% at all_reduce 4 KiB, and in 1 of 3 cases")
    assert spread.case == 1
    assert "up to 2.0% they are the same there" in spread.evidence
    assert (spread.answer, spread.severity) == (Answer.UNDECIDED, Severity.INFO)


def test_noise_that_would_hide_a_difference_says_nothing_of_ranks() -> None:
    record = record_of(dict.fromkeys(SIZES, 50.0), ranks=4, within=0.5)
    spread = conclusions(record, digests=digests(record, {0: (1.0, 1.0, 1.0, 1.5)}))["ranks.spread"]
    assert "within the noise, which hides differences up to 12" in spread.claim
    assert (spread.answer, spread.severity) == (Answer.UNDECIDED, Severity.INFO)


def test_ranks_that_differ_in_most_cases_are_a_warning() -> None:
    record = noisy_at(0, 0.005)
    apart = (1.0, 1.1, 1.2, 1.3)
    found = every_conclusion(record, digests=digests(record, {0: apart, 2: apart}))
    spread = next(each for each in found if each.check == "ranks.spread")
    assert (spread.answer, spread.severity) == (Answer.NO, Severity.WARNING)
    assert exit_code(found) is ExitCode.BAD_VERDICT


def test_rooted_operations_are_not_judged_and_say_why() -> None:
    record = record_of({1024: 10.0}, ranks=4, operation="broadcast")
    spread = conclusions(record, digests=digests(record, {0: (1.0, 1.0, 1.1, 1.0)}))["ranks.spread"]
    assert spread.answer is Answer.UNDECIDED
    assert "ranks of a rooted operation have different parts" in spread.claim
    assert "they are the same" not in spread.evidence


def test_cases_of_no_bytes_accuse_nobody() -> None:
    """Beside a good one: two modes, a tail and ranks that differ, all of an empty call."""
    draw = np.random.default_rng(3)
    empty = np.where(np.arange(200) % 4 == 0, 2.0, 9.0) * np.exp(draw.normal(0, 0.01, 200))
    empty[::50] = 3000.0
    record, samples = sampled({1024: empty, 2048: 10 * np.exp(draw.normal(0, 0.002, 200))}, ranks=4)
    rows = digests(record, {0: (1.0, 3.0, 1.0, 5.0)})
    case, other = record.plan.cases
    for operation, is_empty in (("all_gather", True), ("barrier", False)):
        cases = (replace(case, collective=operation, size_bytes=0, count=0), other)
        run = replace(record, plan=replace(record.plan, cases=cases))
        marked = tuple(
            replace(each, marks=("unstable",) if each.case == 0 else ()) for each in record.results
        )
        found = every_conclusion(replace(run, results=marked), samples=samples, digests=rows)
        bad = {each.check for each in found if each.severity is Severity.WARNING}
        assert bad == set(), operation
        told = {each.check for each in found} & {"variance.modes", UNSTABLE}
        assert told == (set() if is_empty else {"variance.modes"}), operation  # below 50 us: not unstable
        if is_empty:
            assert answer(Question.RANKS, found) is answer(Question.VARIANCE, found) is Answer.YES
