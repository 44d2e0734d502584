"""Verdicts: of blocks, of launches and single numbers, and what is not compared."""

from __future__ import annotations

from dataclasses import replace

import pytest
from busbw_testing.compared import launches, record_of

from busbw.errors import UsageError
from busbw.judge.compare import Comparison, Rule, Verdict, compare, compare_all
from busbw.judge.compare_arms import Arm, make_arm
from busbw.judge.compare_regimes import compared_regimes
from busbw.judge.scatter import Prior, Scatter, SizeClass
from busbw.model.plan import Timing
from busbw.model.record import ImportSource, Method, RunStatus
from busbw.model.result import CaseResult, Status
from busbw.report.compare import regime_words

SIZES = (1024, 2048, 4096)


def series(name: str, median: float, n: int, seed: int, *, block: str = "series") -> Arm:
    """An arm of ``n`` launches in blocks."""
    arm = make_arm(name, [record_of({size: launches(median, n, seed + size) for size in SIZES}, name=name)])
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


def test_a_difference_within_half_of_delta_is_none() -> None:
    """0.5 % is found with certainty, and does not matter."""
    exact = [100.0 + 0.01 * i for i in range(12)]
    arms = [
        in_blocks(name, {size: [time / factor for time in exact] for size in SIZES})
        for name, factor in (("a", 1.0), ("b", 1.005))
    ]
    assert verdicts(compare(arms)) == [Verdict.SAME] * 3
    assert verdicts(compare(arms, Rule(delta=0.002))) == [Verdict.FASTER] * 3


def known(deviation: float) -> Prior:
    """Launches of all sizes scatter by so much."""
    return Prior(False, {("", each): Scatter(deviation, 12) for each in SizeClass})


def test_three_blocks_decide_where_the_scatter_is_known() -> None:
    arms = [series("plain", 100, 3, 1), series("fast", 90, 3, 2), series("same", 100, 3, 3)]
    found = compare(arms, prior=known(0.01))
    assert verdicts(found) == [Verdict.FASTER] * 3 + [Verdict.SAME] * 3
    # By the default of the host-bound, 15 %, they do not: and say what they would have shown.
    found = compare(arms)
    assert verdicts(found) == [Verdict.AMBIGUOUS] * 6
    assert 0.2 < (found.rows[-1].bound or 0.0) < 0.5


def test_blocks_that_scatter_more_than_is_known_go_by_themselves() -> None:
    """Launches of 10 % each, 20 sizes, where 1 % was known."""
    times = {
        name: {1024 * 2**at: launches(100, 3, 40 * side + at, 0.1) for at in range(20)}
        for side, name in enumerate(("plain", "again"))
    }
    found = compare([in_blocks(name, own) for name, own in times.items()], prior=known(0.01))
    assert set(verdicts(found)) == {Verdict.AMBIGUOUS}
    rows = [row for row in found.rows if row.key.size_bytes >= 1 << 20]
    assert all(row.is_own for row in rows)
    assert rows[0].known is not None
    assert rows[0].known.deviation == pytest.approx(0.1, rel=0.3)


def on_gpus(name: str, times: dict[int, float], within: float = 0.005) -> Arm:
    record = record_of(times, name=name, within=within)
    return make_arm(name, [replace(record, plan=replace(record.plan, backend="nccl"))])


LARGE = [1 << 20 + at for at in range(14)]


def test_fourteen_of_fourteen_large_sizes_slower_are_slower_with_one_launch_each() -> None:
    """By the default of 1 %; one such size among fourteen is not called, nor are launches near each other."""
    before = on_gpus("a", dict.fromkeys(LARGE, 100.0))
    found = compare([before, on_gpus("b", dict.fromkeys(LARGE, 110.0))])
    assert verdicts(found) == [Verdict.SLOWER] * 14
    one = compare([before, on_gpus("b", {size: 110.0 if size == LARGE[3] else 100.5 for size in LARGE})])
    assert [row.key.size_bytes for row in one.rows if row.verdict is Verdict.AMBIGUOUS] == [LARGE[3]]
    assert one.count(Verdict.SAME) == 13
    # All sizes share what is odd about a launch: 3 % everywhere is still one launch.
    assert set(verdicts(compare([before, on_gpus("b", dict.fromkeys(LARGE, 103.0))]))) == {Verdict.AMBIGUOUS}


def test_a_launch_that_is_not_known_well_itself_has_a_wider_interval() -> None:
    """Its samples leave +-20 %: a standard error of 10 %."""
    arms = [on_gpus(name, {1 << 20: time}, within=0.2) for name, time in (("a", 100.0), ("b", 110.0))]
    (row,) = compare(arms).rows
    assert row.verdict is Verdict.AMBIGUOUS
    assert row.ratio is not None
    assert row.ratio.scatter.deviation == pytest.approx(0.1)


def test_q_is_over_all_comparisons_of_a_series() -> None:
    """One row that differs among forty needs a smaller p than one alone."""
    fast = [series("plain", 100, 3, 1), series("fast", 95, 3, 2)]
    fast = [replace(arm, cases={key: seen for key, seen in arm.cases.items() if key.size_bytes == 1024})
            for arm in fast]  # fmt: skip
    sizes = [2**i for i in range(3, 43)]
    same = [in_blocks(name, {size: [100.0, 101.0, 99.0] for size in sizes}) for name in ("plain", "again")]
    (alone,) = compare_all([fast], priors=[known(0.01)])
    together, _ = compare_all([fast, same], priors=[known(0.01)] * 2)
    assert [alone.rows[0].verdict, together.rows[0].verdict] == [Verdict.FASTER, Verdict.AMBIGUOUS]
    assert together.rows[0].q == pytest.approx(41 * alone.rows[0].q)


def test_several_logs_of_a_case_are_launches() -> None:
    def log(time: float, index: int) -> object:
        source = ImportSource(f"{index}.log", "nccl-tests")
        return replace(record_of({1024: time}), source=source, method=Method(time="mean"))

    arms = [
        make_arm(name, [log(time, i) for i, time in enumerate(launches(median, 6, median))])
        for name, median in (("a", 100), ("b", 60))
    ]
    found = compare(arms, prior=known(0.03))
    assert verdicts(found) == [Verdict.FASTER]
    assert found.rows[0].ratio.seen.n == (6, 6)


def test_other_worlds_are_refused() -> None:
    with pytest.raises(UsageError, match="2 ranks, b has 4"):
        compare([make_arm("a", [record_of({1024: 1.0})]), make_arm("b", [record_of({1024: 1.0}, ranks=4)])])
    with pytest.raises(UsageError, match="nothing to compare"):
        compare([make_arm("a", [record_of({1024: 1.0})])])
    with pytest.raises(UsageError, match="not one thing"):
        make_arm("a", [record_of({1024: 1.0}), record_of({1024: 1.0}, ranks=4)])


def test_times_of_another_kind_are_flagged_and_never_decide() -> None:
    before = record_of({1024: launches(100, 12, 1)})
    after = record_of({1024: launches(50, 12, 2)}, plan={"timing": Timing(mode="latency", time="last")})
    found = compare([make_arm("a", [before]), make_arm("b", [after])])
    assert verdicts(found) == [Verdict.AMBIGUOUS]
    assert found.flags == ("b: times are busbw latency, last, those of a busbw throughput, max",)
    hot = replace(record_of({1024: launches(50, 12, 2)}), method=Method(buffers="hot"))
    assert compare([make_arm("a", [before]), make_arm("b", [hot])]).flags
    far = record_of({1024: launches(50, 12, 2)}, hosts=2)
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


def rotating(name: str, median: float, seed: int, rotated: int) -> Arm:
    return replace(series(name, median, 20, seed), rotated_bytes=rotated)


@pytest.mark.parametrize(
    ("before", "after", "median", "verdict"),
    [
        (8 << 30, 64 << 10, 80, Verdict.AMBIGUOUS),  # caches may be why it is faster,
        (8 << 30, 64 << 10, 100, Verdict.AMBIGUOUS),  # and why it is no slower;
        (8 << 30, 64 << 10, 130, Verdict.SLOWER),  # slower in spite of them
        (64 << 10, 8 << 30, 130, Verdict.AMBIGUOUS),
        (64 << 10, 8 << 30, 80, Verdict.FASTER),
        (1 << 30, 8 << 30, 130, Verdict.SLOWER),  # no cache holds either
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


def test_one_launch_a_side_without_history_says_what_it_assumes() -> None:
    sizes = [2**power for power in range(20, 28)]
    arms = [on_gpus(name, dict.fromkeys(sizes, us)) for name, us in (("a", 100.0), ("b", 110.0))]
    (regime,) = compared_regimes(compare(arms))
    assert (regime.verdict, regime.assumed) == (Verdict.SLOWER, 0.01)
    assert regime_words(regime).endswith("; assumes launches differ by 1% (too little history here)")
    (regime,) = compared_regimes(compare(arms, prior=known(0.01)))
    assert regime.assumed is None


def test_passes_that_are_further_apart_than_the_default_replace_it() -> None:
    """Their 95 % intervals say that a launch itself moved by 10 %, so launches differ by no less."""
    sizes = [2**power for power in range(20, 28)]
    wide = {size: 0.2 if size > sizes[2] else 0.001 for size in sizes}
    arms = [on_gpus(name, dict.fromkeys(sizes, us)) for name, us in (("a", 100.0), ("b", 110.0))]
    cases = {
        key: replace(seen, interval=tuple(110e3 * (1 + sign * wide[key.size_bytes]) for sign in (-1, 1)))
        for key, seen in arms[1].cases.items()
    }
    moved = replace(arms[1], cases=cases)
    found = compare([arms[0], moved])
    assert set(verdicts(found)) == {Verdict.AMBIGUOUS}
    assert [row.known.deviation for row in found.rows] == pytest.approx([0.1] * len(sizes))
    sharp = compare([arms[0], moved], prior=known(0.01))  # what earlier launches showed stands
    assert sharp.rows[0].verdict is Verdict.SLOWER
