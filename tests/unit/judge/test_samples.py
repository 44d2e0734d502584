"""The samples of a case: how they spread, and all that is known of one case."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from busbw_testing.ranks_of_a_case import LATE, RESULT, make_record, sample_rows
from hypothesis import given
from hypothesis import strategies as st

from busbw.judge.samples import Scale, case_detail, case_times, distributions
from busbw.model.choice import Choice
from busbw.model.result import CaseResult
from busbw.model.sample import HEADLINE, MAX_OVER_RANKS, SAMPLE_DTYPE, SampleFlag


def over_ranks(values: list[int], *, rank: int = MAX_OVER_RANKS, k: int = 1, flags: int = 0) -> np.ndarray:
    rows = np.zeros(len(values), SAMPLE_DTYPE)
    rows["rank"], rows["k"], rows["flags"], rows["elapsed_ns"] = rank, k, flags, values
    return rows


@given(st.lists(st.integers(0, 2**50), min_size=1, max_size=200), st.integers(1, 50))
def test_every_sample_is_in_one_bin(values: list[int], k: int) -> None:
    (spread,) = distributions(0, "max", over_ranks(values, k=k))
    assert sum(spread.counts) == spread.samples == len(values)
    assert (spread.edges_ns[0], spread.edges_ns[-1]) == (min(values) / k, max(values) / k)
    assert len(spread.counts) <= 24


def test_bins_have_equal_widths_until_the_range_is_tenfold() -> None:
    (linear,) = distributions(0, "max", over_ranks([100, 999, *[100] * 30]))
    assert linear.scale is Scale.LINEAR
    assert np.diff(linear.edges_ns) == pytest.approx(899 / len(linear.counts))
    (log,) = distributions(0, "max", over_ranks([100, 1000, *[100] * 30]))
    assert log.scale is Scale.LOG
    ratios = [high / low for low, high in zip(log.edges_ns, log.edges_ns[1:], strict=False)]
    assert ratios == pytest.approx([10 ** (1 / len(log.counts))] * len(log.counts))


def test_two_modes_have_their_centres_and_shares() -> None:
    rng = np.random.default_rng(5)
    values = np.concatenate((rng.normal(6_000, 50, 210), rng.normal(9_000, 80, 90)))
    rng.shuffle(values)
    (spread,) = distributions(0, "max", over_ranks(values.astype(int).tolist()))
    low, high = spread.modes
    assert (low.centre_ns, high.centre_ns) == (pytest.approx(6_000, rel=0.01), pytest.approx(9_000, rel=0.01))
    assert (low.share, high.share) == (0.7, 0.3)
    (one,) = distributions(0, "max", over_ranks(values[values < 7_500].astype(int).tolist()))
    assert one.modes == ()


def test_the_samples_are_those_that_the_number_is_made_from() -> None:
    rows = sample_rows(LATE)
    assert (case_times(0, "max", rows)[0].call_ns == LATE.max(axis=0)).all()
    assert (case_times(0, "last", rows)[0].call_ns == LATE.min(axis=0)).all()
    span = over_ranks([1, 2, 3], rank=HEADLINE)
    single = over_ranks([7], flags=SampleFlag.SINGLE_CALL)  # where the span was equal to the maximum
    spans = case_times(0, "span", np.concatenate((rows, span, single)))
    assert [times.call_ns.tolist() for times in spans] == [[1, 2, 3], [7]]


def test_flagged_samples_are_drawn_and_counted_and_single_calls_are_a_spread_of_their_own() -> None:
    rows = over_ranks([10, 20, 30, 400], k=4)
    rows["flags"][3] = SampleFlag.DESCHEDULED
    calls = over_ranks([7, 9, 11], flags=SampleFlag.SINGLE_CALL)
    calls["flags"][0] |= SampleFlag.CLOCK_STEP
    first, single = distributions(0, "max", np.concatenate((rows, calls)))
    assert (first.single_calls, first.calls_per_sample, first.edges_ns[-1]) == (False, 4, 100)
    assert (first.flagged, first.samples, sum(first.counts)) == (1, 4, 4)
    assert (single.single_calls, single.calls_per_sample, single.edges_ns[-1]) == (True, 1, 11)
    assert (single.flagged, single.samples, sum(single.counts)) == (1, 3, 3)


def test_every_stored_number_is_there() -> None:
    full = replace(
        RESULT,
        stats={"p99": 2100.0, "p99.9": None},
        marks=("unstable",),
        conditions=("grouped",),
        error="no",
        choice=Choice("log", channels=8),
    )
    record = replace(make_record(), results=(full,))
    told = {fact.name: fact.value for fact in case_detail(record, 0, sample_rows(LATE)).stored}
    apart = {"case", "wrong_at", "stats", "evidence", "finished", "groups", "algorithm", "choice"}
    empty = apart | {"pass_samples", "neighbours"}
    names = {field.name for field in fields(CaseResult)}
    assert names - empty <= told.keys()
    assert (told["time_ns"], told["size_bytes"], told["placement"]) == ("2000", "1024", "out-of-place")
    assert (told["stats.p99"], told["stats.p99.9"], told["skew_ns"]) == ("2100", "n/a", "n/a")
    assert (told["choice.source"], told["choice.channels"], told["choice.peers"]) == ("log", "8", "n/a")
    assert (told["stop"], told["status"], told["marks"]) == ("precision", "good", "unstable")


def test_what_the_samples_add() -> None:
    own = np.arange(2, 202, 2)[None, :].repeat(2, axis=0)
    record = replace(make_record(2), results=(RESULT,))
    told = {fact.name: fact.value for fact in case_detail(record, 0, sample_rows(own, k=2)).sampled}
    assert told == {
        "min_ns": "1",
        "p50_ns": "50",
        "p90_ns": "90",
        "p95_ns": "95",
        "p99_ns": "n/a (needs 299 samples, has 100)",
        "p99.9_ns": "n/a (needs 2995 samples, has 100)",
        "max_ns": "100",
    }


def test_a_case_without_a_result_has_its_definition() -> None:
    told = case_detail(make_record(), 3, sample_rows(LATE))
    assert told.sampled == ()
    assert "time_ns" not in {fact.name for fact in told.stored}
