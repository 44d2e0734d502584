"""Is it to be expected: published curves, own references, what does not match, and good runs that pass."""

from __future__ import annotations

import math
import random
import re
from dataclasses import replace

import pytest
from busbw_testing.compared import record_of

from busbw.analysis.compare_arms import key_of
from busbw.analysis.expectation import Answer, expect, reference_of
from busbw.analysis.limits import Wires
from busbw.model.record import RunRecord
from busbw.references.reference import Point, Reference, value_at

SIZES = tuple(2**power for power in range(10, 21, 2))


def reference(times_us: dict[int, tuple[float, ...]], **fields: object) -> Reference:
    points = tuple(
        Point(size, "out-of-place", size / sorted(times)[len(times) // 2] / 1e3, times)
        for size, times in times_us.items()
    )
    plain = Reference(
        name="known", kind="saved", ranks=2, nodes=1, date="2026-11-22", source="here", definition="busbw",
        points=points, operation="all_reduce", device="Xeon", versions={"MPI": "5.0.2"},
        dtype="float", op="sum",
    )  # fmt: skip
    return replace(plain, **fields)


def launches(median_us: float, spread: float, n: int, seed: int) -> tuple[float, ...]:
    draw = random.Random(seed)
    return tuple(median_us * math.exp(draw.gauss(0, spread)) for _ in range(n))


def own_reference(spread: float, n: int = 10) -> Reference:
    return reference({size: launches(size / 100, spread, n, size) for size in SIZES})


def good_run(seed: int, spread: float, factor: float = 1.0) -> RunRecord:
    return record_of(
        {size: launches(factor * size / 100, spread, 1, seed * 1000 + size)[0] for size in SIZES}
    )


def test_ten_good_runs_pass_and_half_the_speed_fails() -> None:
    known = own_reference(0.02)
    for seed in range(10):
        found = expect([good_run(seed, 0.02)], [known])
        assert found.count(Answer.BELOW) == found.count(Answer.UNDECIDED) == 0
    assert expect([good_run(3, 0.02, factor=2.0)], [known]).count(Answer.BELOW) == len(SIZES)


def test_a_reference_that_scatters_confirms_nothing_and_contradicts_half_the_speed() -> None:
    """15 % between launches: a good run is often 20 % below the median, so no run of one launch is told from
    it; far below is below.
    """
    known = own_reference(0.15)
    found = [case for seed in range(30) for case in expect([good_run(seed, 0.15)], [known]).cases]
    assert not any(case.answer is Answer.EXPECTED for case in found)
    assert sum(case.answer is Answer.BELOW for case in found) <= 1  # 0.02 % of a case
    assert "the reference scatters too much" in found[0].why
    assert expect([good_run(3, 0.05, factor=4.0)], [known]).count(Answer.BELOW) == len(SIZES)


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_three_launches_never_call_a_slow_run_expected(share: float) -> None:
    """Two degrees of freedom: what looks wide enough for anything must not pass for good."""
    known = own_reference(0.05, n=3)
    for seed in range(20):
        found = expect([good_run(seed, 0.05, factor=1 / share)], [known])
        assert found.count(Answer.EXPECTED) == found.count(Answer.ABOVE) == 0


def test_more_launches_are_named_and_do() -> None:
    times = (100.0, 104.0, 96.0)
    (case,) = expect([record_of({1024: 100.0})], [reference({1024: times})]).cases
    assert case.answer is Answer.UNDECIDED
    more = int(re.search(r"about (\d+) more launches of it would do", case.why)[1])
    again = tuple(times[i % 3] for i in range(3 + more))
    (case,) = expect([record_of({1024: 100.0})], [reference({1024: again})]).cases
    assert case.answer is Answer.EXPECTED


def test_a_bound_does_not_depend_on_other_cases() -> None:
    known = own_reference(0.03)
    alone = {key_of(run.plan.cases[0]): expect([run], [known]).cases[0].bound_gb_per_s
             for size in SIZES for run in [record_of({size: size / 100})]}  # fmt: skip
    together = expect([good_run(1, 0.0)], [known]).cases
    assert {case.key: case.bound_gb_per_s for case in together} == alone


def test_references_that_contradict_one_another_are_both_shown_and_decide_nothing() -> None:
    fast, slow = (
        reference({1024: (time,)}, kind="log", name=name) for time, name in ((7.0, "fast"), (10.0, "slow"))
    )
    found = expect([record_of({1024: 10.0}, within=0.001)], [slow, fast])
    (case,) = found.cases
    assert case.answer is Answer.UNDECIDED
    assert "references disagree" in case.why
    assert {"fast", "slow"} == set(case.references) == {each.name for each in found.references}
    assert all(f"{name} has" in case.why for name in ("fast", "slow"))
    (case,) = expect([record_of({1024: 15.0}, within=0.001)], [slow, fast]).cases
    assert case.answer is Answer.BELOW  # of both


def test_a_reference_that_cannot_decide_leaves_it_to_one_that_can() -> None:
    wide, log = reference({1024: (10.0, 12.0, 8.0)}), reference({1024: (7.0,)}, kind="log", name="log")
    (case,) = expect([record_of({1024: 10.0}, within=0.001)], [wide, log]).cases
    assert (case.answer, case.reference) == (Answer.BELOW, "log")


def test_a_size_of_zero_has_no_reference() -> None:
    assert value_at(reference({1024: (10.0,)}), 0, "out-of-place") is None


def test_a_published_log_allows_ten_percent() -> None:
    known = reference({1024: (10.0,)}, kind="log")
    for time, answer in ((10.9, Answer.EXPECTED), (11.5, Answer.BELOW), (8.0, Answer.ABOVE)):
        (case,) = expect([record_of({1024: time}, within=0.001)], [known]).cases
        assert case.answer is answer
    (case,) = expect([record_of({1024: 11.1}, within=0.03)], [known]).cases
    assert case.answer is Answer.UNDECIDED  # its interval holds the bound
    (case,) = expect([record_of({1024: 11.5}, within=0.001)], [known], tolerance=0.3).cases
    assert case.answer is Answer.EXPECTED


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"ranks": 4}, "it has 4 ranks, the run 2"),
        ({"nodes": 2}, "it has 2 nodes, the run 1"),
        ({"device": "Epyc"}, "it is of Epyc, the run of Xeon"),
        ({"operation": "all_gather"}, "it is of all_gather"),
        ({"left_out": "no size"}, "no size"),
        ({"nodes": 0}, "it has unknown nodes, the run 1"),
    ],
)
def test_only_what_matches_is_a_reference(changes: dict[str, object], why: str) -> None:
    run = record_of({1024: 10.0})
    other = reference({1024: (10.0,)}, **changes)
    found = expect([run], [other])
    assert [case.answer for case in found.cases] == [Answer.NO_REFERENCE]
    named = expect([run], [other], named=True)
    if changes == {"nodes": 0}:  # nothing contradicts it
        assert named.count(Answer.EXPECTED) == 1
    else:
        assert named.unmatched == {"known": why}


def test_another_version_is_noted_and_can_be_refused() -> None:
    run = record_of({1024: 10.0}, version="4.9.1")
    known = reference({1024: (10.0,)})
    found = expect([run], [known])
    assert found.notes == ("versions: the run MPI 4.9.1; known MPI 5.0.2",)
    assert expect([run], [known], same_version=True).count(Answer.NO_REFERENCE) == 1
    assert expect([record_of({1024: 10.0})], [known], same_version=True).count(Answer.EXPECTED) == 1


def test_what_the_run_does_not_say_is_taken_on_trust_only_if_named() -> None:
    run = record_of({1024: 10.0}, device="")
    known = reference({1024: (10.0,)}, kind="log", device="A100")
    assert expect([run], [known]).count(Answer.NO_REFERENCE) == 1
    found = expect([run], [known], named=True)
    assert found.count(Answer.EXPECTED) == 1
    assert "the run does not say device A100: taken from known, as you named it" in found.notes


def test_a_family_of_devices_is_a_word_of_the_name() -> None:
    known = reference({1024: (10.0,)}, kind="log", device="B200")
    for device, answers in (("NVIDIA B200", 1), ("NVIDIA GB200", 0), ("NVIDIA Graphics Device", 0)):
        assert expect([record_of({1024: 10.0}, device=device)], [known]).count(Answer.EXPECTED) == answers


def test_the_reference_with_more_launches_wins() -> None:
    one, many = reference({1024: (5.0,)}, name="one"), reference({1024: (10.0, 10.1, 9.9) * 4}, name="many")
    (case,) = expect([record_of({1024: 10.0})], [one, many]).cases
    assert case.reference == "many"


def test_a_saved_run_is_no_reference_for_itself() -> None:
    run = record_of({size: launches(size / 100, 0.01, 10, size) for size in SIZES}, name="first")
    times = {key_of(case): tuple(result.evidence["launch_times_ns"]) for case, result in
             zip(run.plan.cases, run.results, strict=True)}  # fmt: skip
    (made,) = reference_of("mine", run, times)
    assert (made.launches, made.ranks, made.nodes, made.device) == (10, 2, 1, "Xeon")
    assert expect([run], [made]).count(Answer.NO_REFERENCE) == len(SIZES)
    assert expect([run], [made], named=True).unmatched == {"mine": "it is this very run"}
    other = replace(run, run_id="second")
    found = expect([other], [made])
    assert found.count(Answer.EXPECTED) == len(SIZES)
    assert all(case.ratio == pytest.approx(1.0) for case in found.cases)
    (both,) = reference_of("mine", run, times, [other])
    assert expect([other], [both]).count(Answer.NO_REFERENCE) == len(SIZES)


@pytest.mark.parametrize(
    ("run", "known", "same"),
    [
        ("2.22.3", {"NCCL": "2.22.3-1"}, True),
        ("2.22.3", {"NCCL": "2.20.3", "nccl-tests": "2.22.3"}, False),  # another program's number
        ("2.20.3", {"NCCL": "2.20.3-1 (default of the kit, not stated for this log)"}, False),
        ("2.22.3", {"MPICH": "2.22.3"}, False),
    ],
)
def test_the_same_version_is_that_of_the_library(run: str, known: dict[str, str], same: bool) -> None:
    record = record_of({1024: 10.0}, version=run)
    ranks = tuple(replace(rank, library="NCCL") for rank in record.world.ranks)
    record = replace(record, world=replace(record.world, ranks=ranks))
    found = expect([record], [reference({1024: (10.0,)}, versions=known)], same_version=True)
    assert found.count(Answer.EXPECTED) == same


def test_the_limit_goes_by_the_observed_algorithm() -> None:
    wires = Wires(nvlink_gb_per_s=0.2)
    run = record_of({1024: 10.0}, algorithm="RING")
    (case,) = expect([run], [], wires=wires).cases
    assert case.limit is not None
    assert (case.limit.busbw_gb_per_s, case.limit.percent) == (0.2, pytest.approx(51.2))
    (case,) = expect([record_of({1024: 10.0})], [], wires=wires).cases
    assert case.limit is not None
    assert "unknown algorithm" in case.limit.model
