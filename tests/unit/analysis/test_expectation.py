"""Is it to be expected: published curves, own references, what does not match, and good runs that pass."""

from __future__ import annotations

import math
import random
import re
from dataclasses import replace

import pytest
from busbw_testing.compared import record_of

from busbw.analysis.compare_arms import key_of
from busbw.analysis.expectation import Answer, expect
from busbw.analysis.own_reference import reference_of
from busbw.analysis.timed import how_timed
from busbw.analysis.wires import Wires
from busbw.model.record import ImportSource, RunRecord
from busbw.references.reference import Point, Reference, value_at

H100 = Wires(nvlink_gb_per_s=450.0, network_gb_per_s=400.0, nics=8)
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


def test_the_newest_reference_comes_first_and_one_without_a_date_last() -> None:
    dates = ("not stated", "2024-04-23", "2026-02-25")
    known = [reference({1024: (10.0,)}, name=date, date=date) for date in dates]
    (case,) = expect([record_of({1024: 10.0})], known).cases
    assert case.references == ("2026-02-25", "2024-04-23", "not stated")


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


def test_a_log_of_a_device_that_nvml_does_not_know_is_said_to_be_its_own_reference() -> None:
    known = reference({1024: (10.0,)}, kind="log", device="GB200", sha256="f00d")
    source = ImportSource("a.log", "nccl-tests", sha256="f00d")
    log = replace(record_of({1024: 10.0}, device="NVIDIA Graphics Device"), source=source)
    found = expect([log], [known], known=[known])
    assert found.unmatched == {"known": "it is this very log"}
    assert found.notes[-1].startswith("this log is known: ")
    shown = replace(known, left_out="no machine")
    assert not expect([log], [shown], known=[shown]).unmatched


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


@pytest.mark.parametrize(
    ("device", "same"),
    [
        ("NVIDIA H100 80GB HBM3", True),
        ("NVIDIA H100 PCIe", False),
        ("NVIDIA H100 NVL", False),
        ("NVIDIA GH200 480GB", False),
    ],
)
def test_cards_are_other_devices_than_modules_on_a_board(device: str, *, same: bool) -> None:
    known = reference({1024: (10.0,)}, kind="log", device="H100")
    assert expect([record_of({1024: 10.0}, device=device)], [known]).count(Answer.EXPECTED) == same


@pytest.mark.parametrize("device", ["NVIDIA A100-PCIE-40GB", "NVIDIA A100 80GB PCIe", "NVIDIA H200 NVL"])
def test_a_card_has_references_of_cards(device: str) -> None:
    family = "H200" if "H200" in device else "A100"
    board, card = (
        reference({1024: (10.0,)}, kind="log", device=name, name=name)
        for name in (family, f"{family} PCIe NVL")
    )
    run = record_of({1024: 10.0}, device=device)
    assert [case.reference for case in expect([run], [board, card]).cases] == [card.name]
    assert expect([run], [board], named=True).unmatched == {family: f"it is of {family}, the run of {device}"}


def timed(run: RunRecord, **timing: object) -> RunRecord:
    return replace(run, plan=replace(run.plan, timing=replace(run.plan.timing, **timing)))


@pytest.mark.parametrize(
    ("timing", "words"), [({"mode": "latency"}, "the run latency"), ({"arrival": "late"}, "arrival late")]
)
def test_times_of_another_kind_decide_only_where_launching_is_no_part(
    timing: dict[str, object], words: str
) -> None:
    known = reference({1024: (20.0,) * 10, 2**20: (20_000.0,) * 10}, definition="busbw throughput, max")
    run = record_of({1024: 60.0, 2**20: 30_000.0})
    plain = expect([run], [known])
    assert plain.count(Answer.BELOW) == 2
    small, large = expect([timed(run, **timing)], [known]).cases
    assert (small.answer, large.answer) == (Answer.UNDECIDED, Answer.BELOW)
    assert small.why.startswith("timed otherwise: ")
    assert words in small.why
    alike = replace(known, timed="; ".join(how_timed(timed(run, **timing))))
    assert expect([timed(run, **timing)], [alike]).count(Answer.BELOW) == 2
    assert expect([run], [alike]).count(Answer.UNDECIDED) == 1


def test_a_graph_is_another_way_of_launching() -> None:
    run = record_of({1024: 60.0})
    graph = replace(run, plan=replace(run.plan, options=replace(run.plan.options, graph=10)))
    assert how_timed(run) == ()
    assert how_timed(graph) == ("CUDA graph",)


def test_the_limit_of_groups_is_that_of_their_ranks() -> None:
    run = record_of({1024: 10.0}, operation="alltoall", ranks=8, hosts=4, algorithm="")
    groups = tuple((rank, rank + 4) for rank in range(4))
    (case,) = expect([replace(run, plan=replace(run.plan, groups=groups))], [], wires=H100).cases
    assert case.limit is not None
    assert case.limit.busbw_gb_per_s == pytest.approx(200.0)


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
        (8 << 30, 16 << 20, 1.5, Answer.UNDECIDED),  # slower than data in a cache: that alone can be why
        (8 << 30, 16 << 20, 1.0, Answer.EXPECTED),
        (16 << 20, 8 << 30, 1.0, Answer.UNDECIDED),  # as quick as data from memory, thanks to a cache
        (16 << 20, 8 << 30, 1.5, Answer.BELOW),
        (8 << 30, 1 << 30, 1.5, Answer.BELOW),  # neither was in a cache
        (16 << 20, 16 << 20, 1.5, Answer.BELOW),
        (16 << 20, 0, 1.0, Answer.EXPECTED),  # not known
    ],
)
def test_what_caches_alone_can_explain_is_not_decided(
    ours: int, theirs: int, factor: float, answer: Answer
) -> None:
    known = reference({2**20: (100.0,) * 10}, rotated=((2**24, theirs),) if theirs else ())
    run = record_of({2**20: 100.0 * factor})
    run = replace(run, plan=replace(run.plan, buffer_bytes=ours))
    (case,) = expect([run], [known]).cases
    assert case.answer is answer
    if answer is Answer.UNDECIDED:
        assert f"measure with -e {'16M' if theirs == 16 << 20 else '8G'}" in case.why


def test_a_run_that_does_not_know_its_own_number_is_not_expected() -> None:
    """Half of its samples took three times as long, beside a copy: the median is of either half."""
    known = reference({2**20: (100.0,) * 10})
    assert [case.answer for case in expect([record_of({2**20: 100.0})], [known]).cases] == [Answer.EXPECTED]
    wide = expect([record_of({2**20: 100.0}, within=0.7)], [known])
    assert [case.answer for case in wide.cases] == [Answer.UNDECIDED]


@pytest.mark.parametrize(("hot", "answer"), [(True, Answer.UNDECIDED), (False, Answer.EXPECTED)])
def test_one_place_is_in_a_cache(hot: bool, answer: Answer) -> None:
    known = reference({2**20: (100.0,) * 10}, rotated=((2**24, 8 << 30),))
    run = record_of({2**20: 100.0})
    run = replace(run, plan=replace(run.plan, buffer_bytes=8 << 30, rotate=not hot))
    assert [case.answer for case in expect([run], [known]).cases] == [answer]


@pytest.mark.parametrize(("tool", "rotates"), [("nccl-tests", True), ("rccl-tests", True), ("osu", False)])
def test_the_tools_that_rotate_too(tool: str, rotates: bool) -> None:
    """Through the maxBytes of their header; who does not say is taken to be alike."""
    known = reference({2**24: (2000.0,) * 10}, rotated=((2**24, 16 << 20),))
    run = record_of({2**24: 3000.0})
    run = replace(run, plan=replace(run.plan, buffer_bytes=8 << 30), source=ImportSource("8g.log", tool))
    (case,) = expect([run], [known]).cases
    assert ("caches" in case.why) is rotates
