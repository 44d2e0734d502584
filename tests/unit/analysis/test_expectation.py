"""Is it to be expected: published curves, own references, what does not match, and good runs that pass."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from busbw_testing.compared import record_of

from busbw.analysis.compare_arms import key_of
from busbw.analysis.expectation import Answer, expect, reference_of
from busbw.analysis.limits import Wires
from busbw.model.record import RunRecord
from busbw.references.reference import Point, Reference

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


def test_a_machine_that_scatters_has_a_wider_gate() -> None:
    """15 % between launches: a good run is often 20 % below the median, and passes; half the speed fails."""
    known = own_reference(0.15)
    below = sum(expect([good_run(seed, 0.15)], [known]).count(Answer.BELOW) for seed in range(30))
    assert below <= 2  # 1 % a run
    assert expect([good_run(3, 0.05, factor=2.5)], [known]).count(Answer.BELOW) >= 4


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
    one, many = reference({1024: (5.0,)}, name="one"), reference({1024: (10.0, 10.1, 9.9)}, name="many")
    (case,) = expect([record_of({1024: 10.0})], [one, many]).cases
    assert case.reference == "many"


def test_a_saved_run_expects_itself() -> None:
    run = record_of({size: launches(size / 100, 0.01, 5, size) for size in SIZES})
    times = {key_of(case): tuple(result.evidence["launch_times_ns"]) for case, result in
             zip(run.plan.cases, run.results, strict=True)}  # fmt: skip
    (made,) = reference_of("mine", run, times)
    assert (made.launches, made.ranks, made.nodes, made.device) == (5, 2, 1, "Xeon")
    found = expect([run], [made])
    assert found.count(Answer.EXPECTED) == len(SIZES)
    assert all(case.ratio == pytest.approx(1.0) for case in found.cases)


def test_the_limit_goes_by_the_observed_algorithm() -> None:
    wires = Wires(nvlink_gb_per_s=0.2)
    run = record_of({1024: 10.0}, algorithm="RING")
    (case,) = expect([run], [], wires=wires).cases
    assert case.limit is not None
    assert (case.limit.busbw_gb_per_s, case.limit.percent) == (0.2, pytest.approx(51.2))
    (case,) = expect([record_of({1024: 10.0})], [], wires=wires).cases
    assert case.limit is not None
    assert "unknown algorithm" in case.limit.model
