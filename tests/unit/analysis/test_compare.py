"""Verdicts: of blocks, launches, samples and single numbers, and what is not compared."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from busbw_testing.compared import record_of

from busbw.analysis.compare import (
    NOT_IN_TURN,
    SINGLE_WORDS,
    Comparison,
    Rule,
    Verdict,
    compare,
    compare_all,
)
from busbw.analysis.compare_arms import Arm, make_arm
from busbw.errors import UsageError
from busbw.model.plan import Timing
from busbw.model.record import ImportSource, Method, RunStatus
from busbw.model.result import CaseResult, Status

SIZES = (1024, 2048, 4096)


def scattered(median: float, n: int, seed: int, spread: float = 0.01) -> list[float]:
    draw = random.Random(seed)
    return [median * math.exp(draw.gauss(0, spread)) for _ in range(n)]


def series(name: str, median: float, n: int, seed: int, *, block: str = "series") -> Arm:
    """An arm of ``n`` launches in blocks."""
    arm = make_arm(name, [record_of({size: scattered(median, n, seed + size) for size in SIZES}, name=name)])
    cases = {key: replace(seen, blocks=tuple(range(n))) for key, seen in arm.cases.items()}
    return replace(arm, cases=cases, series=block)


def in_blocks(name: str, times: dict[int, list[float]]) -> Arm:
    """An arm of launches in blocks, with these times."""
    arm = make_arm(name, [record_of(times, name=name)])
    cases = {key: replace(seen, blocks=tuple(range(len(seen.times_ns)))) for key, seen in arm.cases.items()}
    return replace(arm, cases=cases, series="series")


def verdicts(comparison: Comparison) -> list[Verdict]:
    return [row.verdict for row in comparison.rows]


def test_blocks_decide() -> None:
    arms = [series("plain", 100, 12, 1), series("fast", 80, 12, 2), series("slow", 130, 12, 3)]
    arms.append(series("same", 100, 12, 4))
    found = compare(arms)
    assert verdicts(found)[:6] == [Verdict.FASTER] * 3 + [Verdict.SLOWER] * 3
    assert set(verdicts(found)[6:]) <= {Verdict.SAME, Verdict.AMBIGUOUS}
    row = found.rows[0]
    assert row.speedup == pytest.approx(1.25, abs=0.02)
    assert row.interval[0] < 1.25 < row.interval[1]
    assert (row.rank, row.ranked) == (1, 4)
    assert row.q < 0.01


def test_equal_setups_are_the_same() -> None:
    found = compare([series("plain", 100, 20, 1), series("again", 100, 20, 2)])
    assert verdicts(found) == [Verdict.SAME] * 3


def test_a_difference_within_half_of_delta_is_none() -> None:
    """0.5 % is found with certainty, and does not matter."""
    exact = [100.0 + 0.01 * i for i in range(12)]
    arms = [
        in_blocks(name, {size: [time / factor for time in exact] for size in SIZES})
        for name, factor in (("a", 1.0), ("b", 1.005))
    ]
    assert verdicts(compare(arms)) == [Verdict.SAME] * 3
    assert verdicts(compare(arms, Rule(delta=0.002))) == [Verdict.FASTER] * 3


def test_too_few_blocks_say_how_many_more() -> None:
    found = compare([series("plain", 100, 8, 1), series("fast", 80, 8, 2)])
    # p of 8 blocks is 0.0078: below 0.01 only while all cases differ.
    assert verdicts(found) == [Verdict.FASTER] * 3
    found = compare([series("plain", 100, 7, 1), series("fast", 80, 7, 2)])
    assert verdicts(found) == [Verdict.AMBIGUOUS] * 3
    assert found.rows[0].more_blocks == 1
    assert "1 more blocks" in found.rows[0].why
    # The scatter of two blocks says nothing of that of more.
    found = compare([series("plain", 100, 2, 1), series("fast", 80, 2, 2)])
    assert {(row.more_blocks, row.why) for row in found.rows} == {
        (None, "2 blocks give no interval, 6 would")
    }


def test_one_launch_of_each_is_ambiguous_whatever_its_samples_say() -> None:
    arms = [make_arm(name, [record_of(dict.fromkeys(SIZES, time), within=0.001)]) for name, time in
            (("a", 100.0), ("b", 50.0))]  # fmt: skip
    found = compare(arms)
    assert verdicts(found) == [Verdict.AMBIGUOUS] * 3
    assert found.rows[0].interval == pytest.approx((2.0, 2.0), rel=0.01)
    assert "launches differ more than samples" in found.rows[0].why
    known = compare(arms, Rule(launch_spread=0.05))
    assert verdicts(known) == [Verdict.FASTER] * 3


def test_two_series_at_different_times_do_not_decide() -> None:
    """What drifted between them is in the ratio and not in its interval: 12 launches of each, no q."""
    arms = [make_arm(name, [record_of({1024: scattered(time, 12, seed)})]) for name, time, seed in
            (("a", 100, 1), ("b", 70, 2))]  # fmt: skip
    (row,) = compare(arms).rows
    assert (row.verdict, row.why, row.q, row.more_blocks) == (Verdict.AMBIGUOUS, NOT_IN_TURN, None, None)
    assert row.interval is not None
    (row,) = compare(arms, Rule(launch_spread=0.05)).rows
    assert row.verdict is Verdict.FASTER
    assert compare(arms, Rule(launch_spread=0.2)).rows[0].verdict is Verdict.AMBIGUOUS


def test_one_odd_launch_is_no_verdict_of_a_known_spread() -> None:
    """Nor is anything said against the medians that are printed."""
    arms = [make_arm(name, [record_of({1024: times})]) for name, times in
            (("a", [45.9, 46.0, 45.8]), ("b", [36.7, 36.6, 734.0]))]  # fmt: skip
    (row,) = compare(arms, Rule(launch_spread=0.02)).rows
    assert (row.verdict, row.q) == (Verdict.AMBIGUOUS, None)
    assert row.why == "launches of one side have a spread of 173%: more than the 2% that was given allows"
    assert row.speedup == pytest.approx(45.9 / 36.7)


def test_drift_between_two_series_calls_nothing() -> None:
    """Equal things one after the other on a machine that drifts (a random walk of 2 % a launch)."""
    draw = random.Random(7)
    for _ in range(60):
        level, times = 0.0, []
        for _ in range(24):
            level += draw.gauss(0, 0.02)
            times.append(100 * math.exp(level + draw.gauss(0, 0.01)))
        arms = [make_arm(name, [record_of({1024: part})]) for name, part in
                (("a", times[:12]), ("b", times[12:]))]  # fmt: skip
        assert verdicts(compare(arms)) == [Verdict.AMBIGUOUS]


def test_q_is_over_all_comparisons_of_a_series() -> None:
    """One row that differs among forty needs a smaller p than one alone."""
    plain = [100.0 + 0.01 * i for i in range(9)]
    fast = [in_blocks("plain", {1024: plain}), in_blocks("fast", {1024: [0.8 * time for time in plain]})]
    sizes = [2**i for i in range(3, 43)]
    same = [
        in_blocks(name, {size: [100 + level * (-1) ** i for i in range(9)] for size in sizes})
        for name, level in (("plain", 1.0), ("fast", -1.0))
    ]
    (alone,) = compare_all([fast])
    together, _ = compare_all([fast, same])
    assert [alone.rows[0].verdict, together.rows[0].verdict] == [Verdict.FASTER, Verdict.AMBIGUOUS]
    assert together.rows[0].q == pytest.approx(41 * alone.rows[0].q)


def test_single_numbers_are_ranked_only() -> None:
    logs = [
        replace(
            record_of({1024: time}), source=ImportSource("x.log", "nccl-tests"), method=Method(time="mean")
        )
        for time in (100.0, 50.0)
    ]
    found = compare([make_arm("a", logs[:1]), make_arm("b", logs[1:])])
    (row,) = found.rows
    assert (row.verdict, row.why, row.rank, row.interval) == (Verdict.AMBIGUOUS, SINGLE_WORDS, 1, None)


def test_several_logs_of_a_case_are_launches() -> None:
    def log(time: float, index: int) -> object:
        source = ImportSource(f"{index}.log", "nccl-tests")
        return replace(record_of({1024: time}), source=source, method=Method(time="mean"))

    before = make_arm("a", [log(time, i) for i, time in enumerate(scattered(100, 6, 1))])
    after = make_arm("b", [log(time, i) for i, time in enumerate(scattered(60, 6, 2))])
    found = compare([before, after])
    assert verdicts(found) == [Verdict.AMBIGUOUS]
    assert found.rows[0].ratio.n == (6, 6)
    assert verdicts(compare([before, after], Rule(launch_spread=0.03))) == [Verdict.FASTER]


def test_other_worlds_are_refused() -> None:
    with pytest.raises(UsageError, match="2 ranks, b has 4"):
        compare([make_arm("a", [record_of({1024: 1.0})]), make_arm("b", [record_of({1024: 1.0}, ranks=4)])])
    with pytest.raises(UsageError, match="nothing to compare"):
        compare([make_arm("a", [record_of({1024: 1.0})])])
    with pytest.raises(UsageError, match="not one thing"):
        make_arm("a", [record_of({1024: 1.0}), record_of({1024: 1.0}, ranks=4)])


def test_times_of_another_kind_are_flagged_and_never_decide() -> None:
    before = record_of({1024: scattered(100, 12, 1)})
    after = record_of({1024: scattered(50, 12, 2)})
    after = replace(after, plan=replace(after.plan, timing=Timing(mode="latency", time="last")))
    found = compare([make_arm("a", [before]), make_arm("b", [after])])
    assert verdicts(found) == [Verdict.AMBIGUOUS]
    assert found.flags == ("b: times are busbw latency, last, those of a busbw throughput, max",)
    hot = replace(record_of({1024: scattered(50, 12, 2)}), method=Method(buffers="hot"))
    assert compare([make_arm("a", [before]), make_arm("b", [hot])]).flags
    far = record_of({1024: scattered(50, 12, 2)}, hosts=2)
    assert "2 nodes" in compare([make_arm("a", [before]), make_arm("b", [far])]).flags[0]


def test_failed_wrong_and_missing_cases_have_rows() -> None:
    before = record_of(dict.fromkeys(SIZES, 100.0))
    after = record_of({1024: 100.0, 2048: 100.0})
    results = (
        CaseResult(0, Status.FAILED, error="no memory"),
        CaseResult(1, Status.WRONG, time_ns=5.0, wrong=7),
    )
    found = compare([make_arm("a", [before]), make_arm("b", [replace(after, results=results)])])
    assert [(row.verdict, row.why) for row in found.rows] == [
        (Verdict.FAILED, "no memory"),
        (Verdict.FAILED, "7 wrong elements"),
        (Verdict.MISSING, "not measured"),
    ]
    assert any("other sweep: 2 cases in both, 1 only in a" in note for note in found.notes)


def test_an_arm_that_never_ran_fails_every_case() -> None:
    broken = replace(record_of({1024: 1.0}), results=(), status=RunStatus.FAILED, error="no PMI port")
    found = compare([make_arm("a", [record_of({1024: 100.0})]), replace(make_arm("b", [broken]), ranks=0)])
    assert [(row.verdict, row.why) for row in found.rows] == [(Verdict.FAILED, "no PMI port")]


def test_simulated_nulls_are_hardly_ever_called() -> None:
    """Comparisons of equal setups with drift: the rate of false calls is that of the smallest p, 0.8 %."""
    draw = random.Random(9)
    false = 0
    for trial in range(300):
        drift = [100 * math.exp(draw.gauss(0, 0.1)) for _ in range(8)]
        arms = []
        for name in "ab":
            times = [level * math.exp(draw.gauss(0, 0.02)) for level in drift]
            arm = make_arm(name, [record_of({1024: times})])
            cases = {key: replace(seen, blocks=tuple(range(8))) for key, seen in arm.cases.items()}
            arms.append(replace(arm, cases=cases, series=f"trial {trial}"))
        false += compare(arms).rows[0].verdict in (Verdict.FASTER, Verdict.SLOWER)
    assert false <= 6  # 2.3 are to be expected


def rotating(name: str, median: float, seed: int, rotated: int) -> Arm:
    return replace(series(name, median, 20, seed), rotated_bytes=rotated)


@pytest.mark.parametrize(
    ("before", "after", "median", "verdict"),
    [
        (8 << 30, 64 << 10, 80, Verdict.AMBIGUOUS),  # caches may be why it is faster,
        (8 << 30, 64 << 10, 100, Verdict.AMBIGUOUS),  # and why it is no slower;
        (8 << 30, 64 << 10, 130, Verdict.SLOWER),  # slower in spite of them
        (64 << 10, 8 << 30, 130, Verdict.AMBIGUOUS),
        (64 << 10, 8 << 30, 100, Verdict.AMBIGUOUS),
        (64 << 10, 8 << 30, 80, Verdict.FASTER),
        (1 << 30, 8 << 30, 130, Verdict.SLOWER),  # no cache holds either
        (64 << 10, 64 << 10, 80, Verdict.FASTER),
        (0, 64 << 10, 80, Verdict.FASTER),  # not known
    ],
)
def test_what_caches_alone_can_explain_is_ambiguous(
    before: int, after: int, median: float, verdict: Verdict
) -> None:
    found = compare([rotating("a", 100, 1, before), rotating("b", median, 2, after)])
    assert verdicts(found) == [verdict] * 3
    if verdict is Verdict.AMBIGUOUS:
        assert all("caches" in row.why for row in found.rows)
    if {before, after} == {8 << 30, 64 << 10}:
        (note,) = found.notes
        assert "rotated through" in note
        assert note.endswith("measure both with -e 8G")


def test_the_record_says_through_how_much_its_calls_rotated() -> None:
    run = record_of({1024: 100.0})
    assert (
        make_arm("a", [replace(run, plan=replace(run.plan, buffer_bytes=1 << 24))]).rotated_bytes == 1 << 24
    )


def test_setups_that_vary_the_buffers_are_compared_in_them() -> None:
    arms = [rotating("cold", 100, 1, 1 << 30), rotating("hot", 80, 2, 1)]
    arms = [replace(arm, flags={"hot": arm.name == "hot"}) for arm in arms]
    assert verdicts(compare(arms)) == [Verdict.FASTER] * 3


def failed_run(*sizes: int) -> Arm:
    record = record_of(dict.fromkeys(sizes, 1.0), name="broken")
    return make_arm("broken", [replace(record, results=(), status=RunStatus.FAILED, error="died")])


def failed_log(header: dict[str, int]) -> Arm:
    record = record_of({1024: 1.0}, name="broken")
    return make_arm("broken", [replace(
        record, plan=replace(record.plan, cases=()), results=(), status=RunStatus.FAILED, error="died",
        source=ImportSource("broken.log", "nccl-tests", header=header, labels={"test": "all_reduce"}),
    )])  # fmt: skip


@pytest.mark.parametrize(
    ("broken", "failed"),
    [
        (failed_run(1024, 2048), [1024, 2048]),
        (failed_run(2048), [2048]),
        (failed_log({"min_bytes": 2000, "max_bytes": 4096}), [2048, 4096]),
        (failed_log({}), [1024, 2048, 4096]),  # nobody knows what it was asked for
    ],
)
def test_only_cases_that_were_asked_for_failed(broken: Arm, failed: list[int]) -> None:
    whole = make_arm("whole", [record_of(dict.fromkeys(SIZES, 10.0))])
    rows = compare([whole, broken]).rows
    assert [row.key.size_bytes for row in rows if row.verdict is Verdict.FAILED] == failed
    assert {row.why for row in rows if row.verdict is Verdict.FAILED} == {"died"}
    assert {row.why for row in rows if row.verdict is Verdict.MISSING} <= {"not measured"}


def test_each_operation_of_a_run_that_failed_is_told() -> None:
    record = record_of({1024: 1.0})
    case = record.plan.cases[0]
    plan = replace(record.plan, cases=(case, replace(case, index=1, collective="alltoall", op="")))
    broken = replace(record, plan=plan, results=(), status=RunStatus.FAILED, error="died")
    whole = make_arm("whole", [record_of({1024: 10.0}, operation="alltoall")])
    found = compare([whole, make_arm("broken", [broken])])
    assert verdicts(found) == [Verdict.FAILED]
    assert found.notes[-2:] == ("broken: all_reduce failed: died", "broken: alltoall failed: died")
