"""Is it to be expected: published curves, own references, what does not match, and good runs that pass."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest
from busbw_testing.compared import launches, record_of, reference_of

from busbw.judge.compare import compare
from busbw.judge.compare_arms import CaseKey, key_of, make_arm
from busbw.judge.compare_regimes import regimes
from busbw.judge.expectation import Gate, Judged, Judgement, expect, gate_of, overall
from busbw.judge.matching import made_with
from busbw.judge.own_reference import launches_of
from busbw.judge.own_reference import reference_of as saved_of
from busbw.judge.references.reference import Reference
from busbw.judge.scatter import Prior, Scatter, SizeClass
from busbw.judge.wires import Wires
from busbw.model.record import ImportSource, RunRecord

H100 = Wires(nvlink_gb_per_s=450.0, network_gb_per_s=400.0, nics=8)
DEVICE = Prior(on_device=True)
SIZES = tuple(2**power for power in range(10, 21, 2))


def own_reference(spread: float, n: int = 10) -> Reference:
    return reference_of({size: launches(size / 100, n, size, spread) for size in SIZES})


def good_run(seed: int, spread: float, factor: float = 1.0) -> RunRecord:
    return record_of(
        {size: launches(factor * size / 100, 1, seed * 1000 + size, spread)[0] for size in SIZES}
    )


def held(us: float, *known: Reference, size: int = 2**20, within: float = 0.001, **options: Any) -> Judged:
    """A run of one size, in so many microseconds, on a device."""
    run = record_of({size: us}, within=within)
    (case,) = expect([run], known, **{"prior": DEVICE, **options}).cases
    return case


def test_the_newest_reference_comes_first_and_one_without_a_date_last() -> None:
    dates = ("not stated", "2024-04-23", "2026-02-25")
    known = [reference_of({1024: (10.0,)}, name=date, date=date) for date in dates]
    assert held(10.0, *known, size=1024).references == ("2026-02-25", "2024-04-23", "not stated")


def test_a_good_run_is_expected_however_launches_scatter_and_what_would_not_show_is_said() -> None:
    known = own_reference(0.15)
    found = [case for seed in range(30) for case in expect([good_run(seed, 0.15)], [known]).cases]
    assert sum(case.answer is Judgement.BELOW for case in found) <= 1  # 0.1 % of a case
    assert all(0.3 < (case.loss_unseen or 0.0) < 0.6 for case in found)
    far = expect([good_run(3, 0.05, factor=4.0)], [known])
    assert far.count(Judgement.BELOW) == len(SIZES)


def test_a_loss_that_has_to_show_and_would_not_is_undecided() -> None:
    known = reference_of({1024: (100.0,) * 3, 2**20: (100.0,) * 3, 2**21: (100.0,) * 3})
    run = record_of({1024: 100.0, 2**20: 100.0, 2**21: 104.5}, within=0.001)
    found = expect([run], [known], detect=0.04, prior=DEVICE)
    small, large, slow = found.cases
    assert (small.answer, small.why) == (Judgement.UNDECIDED, "a loss of 4% would not show")
    assert (large.answer, large.loss_unseen) == (Judgement.EXPECTED, pytest.approx(0.04))
    assert slow.answer is Judgement.BELOW
    assert expect([run], [known], prior=DEVICE).count(Judgement.EXPECTED) == 3


def test_a_run_whose_samples_say_nothing_is_not_as_expected() -> None:
    known = reference_of({2**20: (100.0,) * 3})
    for within, answer in ((0.1, Judgement.BELOW), (0.9, Judgement.UNDECIDED)):
        case = held(300.0, known, within=within)
        assert case.answer is answer
    assert case.why == "a loss of 90% would not show"
    assert held(100.0, known, within=0.01).loss_unseen == pytest.approx(0.05)


def test_history_says_how_launches_differ_where_one_launch_cannot() -> None:
    known = reference_of({2**20: (100.0,)})
    for deviation, answer in ((0.002, Judgement.BELOW), (0.02, Judgement.EXPECTED)):
        prior = Prior(True, {("all_reduce", SizeClass.LARGE): Scatter(deviation, 12)})
        assert held(108.0, known, tolerance=0.05, prior=prior).answer is answer


def test_large_sizes_say_together_how_launches_differ_and_small_ones_each_for_itself() -> None:
    """Two launches of one size say little, of twenty much; what is odd below 1 MiB is so at all sizes."""
    times = {power: launches(100.0, 2, power, 0.005) for power in range(40)}
    one = reference_of({2**20: times[20]})
    many = reference_of({2**power: times[power] for power in range(40)})
    run = record_of({2**power: 100.0 for power in range(40)}, within=0.0)
    alone = next(case for case in expect([run], [one]).cases if case.key.size_bytes == 2**20)
    found = {case.key.size_bytes: case.scatter or 0.0 for case in expect([run], [many]).cases}
    assert found[2**20] == found[2**39] < 0.07 < min(alone.scatter or 0.0, found[2**19])


def test_levels_that_short_cases_share_are_counted_once() -> None:
    """They are in the scatter between launches, so a case's own interval stands beside that."""
    known, prior = reference_of({1024: (10.0,) * 3}), Prior(True, {("", SizeClass.SMALL): Scatter(0.02, 12)})
    plain = record_of({1024: 10.0}, within=0.01)
    (result,) = plain.results
    own = {"own_interval_ns": [result.low_ns, result.high_ns]}
    shared = replace(plain, results=(replace(result, low_ns=7000.0, high_ns=15000.0, evidence=own),))
    assert expect([shared], [known], prior=prior).cases == expect([plain], [known], prior=prior).cases
    rows = [compare([make_arm("a", [run])] * 2, prior=prior).rows for run in (plain, shared)]
    assert rows[0] == rows[1]


def test_references_that_contradict_one_another_decide_nothing() -> None:
    fast, slow = (
        reference_of({2**20: (time,)}, kind="log", name=name)
        for time, name in ((7.0, "fast"), (10.0, "slow"))
    )
    found = expect([record_of({2**20: 10.0}, within=0.001)], [slow, fast], prior=DEVICE)
    (case,) = found.cases
    assert case.answer is Judgement.UNDECIDED
    assert case.why == "references disagree (fast: below; slow: as expected): name one with --reference"
    assert {"fast", "slow"} == set(case.references) == {each.name for each in found.references}
    assert held(15.0, slow, fast).answer is Judgement.BELOW  # of both


def test_a_reference_that_sees_less_does_not_contradict_one_that_sees_more() -> None:
    wide, log = reference_of({1024: (6.0, 9.0, 13.5)}), reference_of({1024: (9.0,)}, kind="log", name="log")
    sharp = Prior(True, {("", SizeClass.SMALL): Scatter(0.02, 12)})
    assert held(12.0, log, size=1024, prior=sharp).answer is Judgement.BELOW
    assert held(12.0, wide, size=1024, prior=sharp).answer is Judgement.EXPECTED
    near = reference_of({1024: (9.1, 9.0, 8.9)}, name="near")
    both = held(12.0, near, wide, size=1024, prior=sharp)
    assert (both.answer, both.reference) == (Judgement.BELOW, "near")


def test_a_published_log_allows_ten_percent() -> None:
    known = reference_of({2**20: (10.0,)}, kind="log")
    for time, answer in ((10.9, Judgement.EXPECTED), (11.5, Judgement.BELOW), (8.0, Judgement.EXPECTED)):
        assert held(time, known).answer is answer
    assert held(11.5, known, tolerance=0.3).answer is Judgement.EXPECTED


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"ranks": 4}, "it has 4 ranks, the run 2"),
        ({"nodes": 2}, "it has 2 nodes, the run 1"),
        ({"device": "Epyc"}, "it is of Epyc, the run of Xeon"),
        ({"operation": "all_gather"}, "it is of all_gather"),
        ({"dtype": "double"}, "it is of double, the run of float"),
        ({"op": "max"}, "it is of max, the run of sum"),
        ({"left_out": "no size"}, "no size"),
        ({"nodes": 0}, "it has unknown nodes, the run 1"),
    ],
)
def test_only_what_matches_is_a_reference(changes: dict[str, object], why: str) -> None:
    run = record_of({1024: 10.0})
    other = reference_of({1024: (10.0,)}, **changes)
    found = expect([run], [other])
    assert [case.answer for case in found.cases] == [Judgement.NO_REFERENCE]
    named = expect([run], [other], named=True)
    if changes == {"nodes": 0}:  # nothing contradicts it
        assert named.count(Judgement.EXPECTED) == 1
    else:
        assert named.unmatched == {"known": why}


def test_another_version_is_noted_and_can_be_refused() -> None:
    run = record_of({1024: 10.0}, version="4.9.1")
    known = reference_of({1024: (10.0,)})
    found = expect([run], [known])
    assert found.notes == ("versions: the run MPI 4.9.1; known MPI 5.0.2",)
    assert expect([run], [known], same_version=True).count(Judgement.NO_REFERENCE) == 1
    assert expect([record_of({1024: 10.0})], [known], same_version=True).count(Judgement.EXPECTED) == 1


def test_what_the_run_does_not_say_is_taken_on_trust_only_if_named() -> None:
    run = record_of({1024: 10.0}, device="")
    known = reference_of({1024: (10.0,)}, kind="log", device="A100")
    assert expect([run], [known]).count(Judgement.NO_REFERENCE) == 1
    found = expect([run], [known], named=True)
    assert found.count(Judgement.EXPECTED) == 1
    assert "the run does not say device A100: taken from known, as you named it" in found.notes


def test_a_log_of_a_device_that_nvml_does_not_know_is_said_to_be_its_own_reference() -> None:
    known = reference_of({1024: (10.0,)}, kind="log", device="GB200", sha256="f00d")
    source = ImportSource("a.log", "nccl-tests", sha256="f00d")
    log = replace(record_of({1024: 10.0}, device="NVIDIA Graphics Device"), source=source)
    assert expect([log], [known]).unmatched == {"known": "it is this very log"}
    assert not expect([log], [replace(known, left_out="no machine")]).unmatched


def test_a_saved_run_is_no_reference_for_itself() -> None:
    run = record_of({size: launches(size / 100, 10, size, 0.01) for size in SIZES}, name="first")
    times = {key_of(case): tuple(result.evidence["launch_times_ns"]) for case, result in
             zip(run.plan.cases, run.results, strict=True)}  # fmt: skip
    (made,) = saved_of("mine", run, times)
    assert (made.launches, made.ranks, made.nodes, made.device) == (10, 2, 1, "Xeon")
    assert expect([run], [made]).count(Judgement.NO_REFERENCE) == len(SIZES)
    assert expect([run], [made], named=True).unmatched == {"mine": "it is this very run"}
    other = replace(run, run_id="second")
    found = expect([other], [made])
    assert found.count(Judgement.EXPECTED) == len(SIZES)
    assert all(case.ratio == pytest.approx(1.0) for case in found.cases)
    (both,) = saved_of("mine", run, times, [other])
    assert expect([other], [both]).count(Judgement.NO_REFERENCE) == len(SIZES)


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
    found = expect([record], [reference_of({1024: (10.0,)}, versions=known)], same_version=True)
    assert found.count(Judgement.EXPECTED) == same


@pytest.mark.parametrize(
    ("device", "same"),
    [
        ("NVIDIA H100 80GB HBM3", True),
        ("NVIDIA H100 PCIe", False),
        ("NVIDIA GH200 480GB", False),
    ],
)
def test_cards_are_other_devices_than_modules_on_a_board(device: str, *, same: bool) -> None:
    known = reference_of({1024: (10.0,)}, kind="log", device="H100")
    assert expect([record_of({1024: 10.0}, device=device)], [known]).count(Judgement.EXPECTED) == same


def timed(run: RunRecord, **timing: object) -> RunRecord:
    return replace(run, plan=replace(run.plan, timing=replace(run.plan.timing, **timing)))


@pytest.mark.parametrize(
    ("timing", "words"), [({"mode": "latency"}, "the run latency"), ({"arrival": "late"}, "arrival late")]
)
def test_times_of_another_kind_decide_only_where_launching_is_no_part(
    timing: dict[str, object], words: str
) -> None:
    known = reference_of({1024: (20.0,) * 10, 2**20: (20_000.0,) * 10}, definition="busbw throughput, max")
    run = record_of({1024: 60.0, 2**20: 30_000.0})
    plain = expect([run], [known])
    assert plain.count(Judgement.BELOW) == 2
    small, large = expect([timed(run, **timing)], [known]).cases
    assert (small.answer, large.answer) == (Judgement.UNDECIDED, Judgement.BELOW)
    assert small.why.startswith("timed otherwise: ")
    assert words in small.why
    alike = replace(known, timed="; ".join(made_with(timed(run, **timing)).timed))
    assert expect([timed(run, **timing)], [alike]).count(Judgement.BELOW) == 2
    assert expect([run], [alike]).count(Judgement.UNDECIDED) == 1


def test_a_limit_that_one_case_refutes_is_none_for_the_others() -> None:
    """1 MiB at 680 GB/s over NICs of 400: then 64 KiB at 300 is not 75 % of anything."""
    small, large = 2**16, 2**20
    times = {small: small / 300e3 * 7 / 4, large: large / 680e3 * 7 / 4}
    run = record_of(times, ranks=8, hosts=2, algorithm="RING")
    found = expect([run], [], wires=replace(H100, nvlink_gb_per_s=900.0))
    assert [case.limit.percent for case in found.cases if case.limit is not None] == [None, None]
    assert all("unknown: 680 GB/s is above 400" in case.limit.model for case in found.cases if case.limit)
    slow = record_of({small: times[small]}, ranks=8, hosts=2, algorithm="RING")
    (case,) = expect([slow], [], wires=H100).cases
    assert case.limit is not None
    assert case.limit.percent == pytest.approx(75.0)


@pytest.mark.parametrize(
    ("ours", "theirs", "factor", "answer"),
    [
        (8 << 30, 16 << 20, 1.5, Judgement.UNDECIDED),  # slower than data in a cache: that alone can be why
        (8 << 30, 16 << 20, 1.0, Judgement.EXPECTED),
        (16 << 20, 8 << 30, 1.0, Judgement.UNDECIDED),  # as quick as data from memory, thanks to a cache
        (16 << 20, 8 << 30, 1.5, Judgement.BELOW),
        (16 << 20, 0, 1.0, Judgement.EXPECTED),  # not known
    ],
)
def test_what_caches_alone_can_explain_is_not_decided(
    ours: int, theirs: int, factor: float, answer: Judgement
) -> None:
    known = reference_of({2**20: (100.0,) * 10}, rotated=((2**24, theirs),) if theirs else ())
    run = record_of({2**20: 100.0 * factor}, plan={"buffer_bytes": ours})
    (case,) = expect([run], [known]).cases
    assert case.answer is answer
    if answer is Judgement.UNDECIDED:
        assert f"measure with -e {'16M' if theirs == 16 << 20 else '8G'}" in case.why


@pytest.mark.parametrize(("tool", "rotates"), [("nccl-tests", True), ("rccl-tests", True), ("osu", False)])
def test_the_tools_that_rotate_too(tool: str, rotates: bool) -> None:
    """Through the maxBytes of their header; who does not say is taken to be alike."""
    known = reference_of({2**24: (2000.0,) * 10}, rotated=((2**24, 16 << 20),))
    source = ImportSource("8g.log", tool)
    run = record_of({2**24: 3000.0}, plan={"buffer_bytes": 8 << 30}, source=source)
    (case,) = expect([run], [known]).cases
    assert ("caches" in case.why) is rotates


def test_neighbouring_sizes_contradict_the_default_where_nothing_else_shows_the_scatter() -> None:
    """One launch against one launch of a machine that scatters by 5 %, where 1 % is the default."""
    draw = random.Random(3)
    sizes = [2**power for power in range(20, 31)]
    run, other = (
        record_of({size: 100.0 * math.exp(draw.gauss(0, 0.05)) for size in sizes}, name=name) for name in "ab"
    )
    (known,) = saved_of("known", other, launches_of((other,)))
    found = expect([run], [known], prior=DEVICE)
    assert found.count(Judgement.BELOW) == 0
    assert found.cases[0].scatter > 0.02
    assert found.cases[0].assumed is None
    steady = expect([run], [known], prior=Prior(True, {("", SizeClass.LARGE): Scatter(0.01, 12)}))
    assert steady.count(Judgement.BELOW) > 0  # a history is not contradicted by one launch


@pytest.mark.parametrize(
    ("least", "low", "high", "gate"),
    [
        (100.0, 101.0, 120.0, Gate.PASS),
        (100.0, 80.0, 99.0, Gate.FAIL),
        (100.0, 95.0, 115.0, Gate.UNDECIDED),
        (100.0, 100.0, 120.0, Gate.PASS),
        (110.0, None, None, Gate.PASS),
        (111.0, None, None, Gate.FAIL),
    ],
)
def test_the_whole_interval_decides(least: float, low: float | None, high: float | None, gate: Gate) -> None:
    assert gate_of(least, 110.0, low, high) is gate


def test_one_fail_fails_and_one_doubt_keeps_from_passing() -> None:
    assert overall([Gate.PASS, Gate.UNDECIDED, Gate.FAIL]) is Gate.FAIL
    assert overall([Gate.PASS, Gate.UNDECIDED]) is Gate.UNDECIDED
    assert overall([Gate.PASS]) is Gate.PASS


KIB, MIB = 1 << 10, 1 << 20


def judged(size_bytes: int, answer: Judgement = Judgement.EXPECTED, why: str = "") -> Judged:
    return Judged(CaseKey("all_reduce", "float", "sum", -1, "in-place", size_bytes), answer, why)


def test_an_answer_a_reason_or_the_links_pace_begins_a_regime() -> None:
    rows = [
        judged(8 * MIB),
        judged(8),
        judged(512 * KIB),
        judged(MIB),
        judged(2 * MIB, why="another reason"),
        judged(4 * MIB, Judgement.BELOW, "another reason"),
        judged(16 * MIB),
    ]
    found = regimes(rows, lambda row: (row.answer, row.why))
    sizes = [[row.key.size_bytes for row in own] for own in found]
    assert sizes == [[8, 512 * KIB], [MIB], [2 * MIB], [4 * MIB], [8 * MIB, 16 * MIB]]
