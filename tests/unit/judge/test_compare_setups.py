"""Series of setups: how far each came, gains beside costs, and which to take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from busbw_testing.compared import record_of

from busbw.cli.compare import exit_code
from busbw.judge.compare import Comparison, Verdict, compare
from busbw.judge.compare_regimes import compared_regimes
from busbw.judge.compare_setups import (
    LaunchOutcome,
    choices,
    reaches,
    setup_arms,
    winner,
    wrong_data,
)
from busbw.model.record import RunRecord
from busbw.model.result import Status
from busbw.report.compare import table
from busbw.report.compare_setups import taken

BLOCKS = 12
SIZES = (1024, 2048, 4096, 8192)
# Times against the default, by size: helps large messages, hurts small ones.
SETUPS = {
    "plain": (1.0, 1.0, 1.0, 1.0),
    "large": (1.3, 1.0, 0.8, 0.7),
    "better": (0.95, 0.95, 0.95, 0.9),
}


def measured(
    setups: dict[str, tuple[float, ...]] = SETUPS,
) -> tuple[list[LaunchOutcome], dict[str, RunRecord]]:
    outcomes, records = [], {}
    for block in range(BLOCKS):
        for name, factors in setups.items():
            folder = f"launches/{len(outcomes)}"
            level = 100 * (1 + 0.05 * block)  # drifts by 60 % over the series
            wobble = 1 + 0.001 * ((block * 7) % 5)
            times = {size: level * factor * wobble for size, factor in zip(SIZES, factors, strict=True)}
            records[folder] = record_of(times)
            outcomes.append(LaunchOutcome(name, block, 0, folder, 1.0))
    return outcomes, records


def compared(
    setups: Iterable[str], outcomes: Sequence[LaunchOutcome], records: Mapping[str, RunRecord]
) -> Comparison:
    return compare(setup_arms("s", list(setups), outcomes, records, 0))


def test_gains_and_costs_are_regimes() -> None:
    found = list(compared_regimes(compared(SETUPS, *measured())))
    told = [(e.arm, e.verdict, e.first_bytes, e.last_bytes) for e in found]
    assert told == [
        ("large", Verdict.SLOWER, 1024, 1024),
        ("large", Verdict.SAME, 2048, 2048),
        ("large", Verdict.FASTER, 4096, 8192),
        ("better", Verdict.FASTER, 1024, 8192),
    ]
    assert (found[0].least, found[2].least, found[2].most) == pytest.approx((0.3, 0.25, 0.43), abs=0.01)


def test_roots_are_curves_of_their_own() -> None:
    """The one to take is told of each: it may be another."""
    outcomes, records = measured({"plain": (1.0,) * 4, "new": (1.0, 0.7, 0.7, 0.7)})
    for folder, record in records.items():
        rooted = [replace(case, collective="broadcast", op="") for case in record.plan.cases]
        first = [replace(case, root=0) for case in rooted]
        second = [replace(case, root=1, index=case.index + len(rooted)) for case in rooted]
        is_new = outcomes[int(folder.rpartition("/")[2])].setup == "new"
        times = [result.time_ns for result in record.results]
        same = [time / (0.7 if is_new and at else 1.0) for at, time in enumerate(times)]
        results = [
            *(replace(result, time_ns=time) for result, time in zip(record.results, same, strict=True)),
            *(replace(result, case=result.case + len(rooted)) for result in record.results),
        ]
        plan = replace(record.plan, cases=(*first, *second))
        records[folder] = replace(record, plan=plan, results=tuple(results))
    comparison = compared(["plain", "new"], outcomes, records)
    told = [(c.root, c.setup, c.first_bytes, c.last_bytes) for c in choices(comparison)]
    assert told == [(0, "plain", 1024, 8192), (1, "plain", 1024, 1024), (1, "new", 2048, 8192)]
    words = [(0, choice) for choice in choices(comparison)]
    assert list(taken(words))[2].startswith("new for broadcast float out-of-place root 1 2 KiB to 8 KiB")
    both = [*words, *((0, replace(choice, placement="in-place")) for _, choice in words)]
    assert [line.replace(" and in-place", "") for line in taken(both)] == list(taken(words))


def test_a_setup_that_was_not_launched_before_the_series_was_cut_is_missing() -> None:
    comparison = compared(["plain", "late"], *measured({"plain": (1.0,) * 4}))
    assert {row.verdict for row in comparison.rows} == {Verdict.MISSING}
    assert exit_code([comparison], gate=True) == 3


def test_the_one_to_take_by_size() -> None:
    comparison = compared(SETUPS, *measured())
    assert [(c.setup, c.first_bytes, c.last_bytes) for c in choices(comparison)] == [
        ("better", 1024, 2048),
        ("large", 4096, 8192),
    ]
    # large wins where it is faster, and is slower elsewhere: not the one to export.
    assert winner([comparison]).setup == "better"


def test_a_setup_that_never_ran_has_failed_rows() -> None:
    outcomes, records = measured({"plain": (1.0,) * 4})
    outcomes += [
        LaunchOutcome("broken", block, 0, "", 1.0, "no such library", ("dlopen",)) for block in (0, 1)
    ]
    outcomes += [LaunchOutcome("broken", block, 0, "", 0.0, skipped=True) for block in range(2, BLOCKS)]
    comparison = compared(["plain", "broken"], outcomes, records)
    assert {(row.verdict, row.why) for row in comparison.rows} == {(Verdict.FAILED, "no such library")}
    assert winner([comparison]).setup == "plain"
    plain, broken = reaches(["plain", "broken"], outcomes, {})
    assert (plain.failed, plain.launches) == (0, BLOCKS)
    assert (broken.failed, broken.launches) == (2, 2)
    assert (broken.error, broken.words) == ("no such library", ("dlopen",))


def test_the_largest_number_of_nodes_and_the_first_that_failed() -> None:
    outcomes = [
        LaunchOutcome("plain", block, nodes, "", 1.0, error="hung" if nodes == 8 and block == 1 else "")
        for nodes in (2, 4, 8)
        for block in (0, 1)
    ]
    (reach,) = reaches(["plain"], outcomes, {})
    assert (reach.largest_nodes, reach.first_failed_nodes, reach.error) == (4, 8, "hung")


def test_records_that_are_gone_are_told_and_do_not_pass() -> None:
    outcomes, records = measured()
    gone = [outcome.folder for outcome in outcomes if outcome.setup == "better"]
    for folder in gone[:3]:
        del records[folder]
    found = compared(SETUPS, outcomes, records)
    (note,) = [note for note in found.notes if "gone" in note]
    assert note == f"better: the records of 3 of 12 completed launches are gone, the first is {gone[0]}"
    better = replace(found, candidates=found.candidates[1:], rows=tuple(
        row for row in found.rows if row.arm == "better"))  # fmt: skip
    assert exit_code([better], gate=True) == 3


def test_a_setup_that_costs_on_another_number_of_nodes_is_not_the_one_to_export() -> None:
    few = {"plain": (1.0,) * 4, "mixed": (1.3,) * 4, "calm": (1.0,) * 4}
    more = {"plain": (1.0,) * 4, "mixed": (0.7,) * 4, "calm": (0.9, 1.0, 1.0, 1.0)}
    on_few, on_more = (compared(each, *measured(each)) for each in (few, more))
    for comparisons in ([on_few, on_more], [on_more, on_few]):
        best = winner(comparisons)
        assert best.setup == "calm"
        assert best.why.startswith("of 8 cases ")
        assert "FASTER in 1" in best.why
        assert "SAME in 7" in best.why
    alike = {**more, "calm": (1.0,) * 4}
    assert winner([on_few, compared(alike, *measured(alike))]).setup == "plain"


def test_a_setup_that_hung_in_a_block_is_not_the_one_to_export() -> None:
    outcomes, records = measured({"plain": (1.0,) * 4, "fast": (0.7,) * 4, "calm": (0.9,) * 4})
    gone = next(o for o in outcomes if o.setup == "fast" and o.block == 3)
    outcomes[outcomes.index(gone)] = LaunchOutcome("fast", 3, 0, "", 9.0, "hung", ())
    comparison = compared(["plain", "fast", "calm"], outcomes, records)
    assert comparison.count(Verdict.FASTER) == 8
    assert {row.ratio.seen.n for row in comparison.rows if row.arm == "fast"} == {(BLOCKS - 1, BLOCKS - 1)}
    assert any("fast: a launch failed: hung" in note for note in comparison.notes)
    assert winner([comparison]).setup == "calm"
    assert {choice.setup for choice in choices(comparison)} == {"calm"}
    assert {row.reasons for row in comparison.rows if row.arm == "fast"} == {
        f"fast: 1 of {BLOCKS} launches have no number"
    }
    # As the default it is not taken either, where nothing is faster.
    comparison = compared(["fast", "plain"], outcomes, records)
    assert choices(comparison) == ()


def test_a_setup_whose_data_were_wrong_in_some_launches_failed_and_wins_nowhere() -> None:
    outcomes, records = measured({"plain": (1.0,) * 4, "fast": (0.7,) * 4, "calm": (0.9,) * 4})
    own = [outcome.folder for outcome in outcomes if outcome.setup == "fast"]
    for folder in own[2:4]:
        *right, last = records[folder].results
        wrong = replace(last, status=Status.WRONG, wrong=5)
        records[folder] = replace(records[folder], results=(*right, wrong))
    comparison = compared(["plain", "fast", "calm"], outcomes, records)
    rows = {row.key.size_bytes: row for row in comparison.rows if row.arm == "fast"}
    assert rows[8192].verdict is Verdict.FAILED
    assert rows[8192].why == "wrong data in 2 of 12 launches: 5 wrong elements"
    assert rows[1024].verdict is Verdict.FASTER
    assert {choice.setup for choice in choices(comparison)} == {"calm"}
    assert winner([comparison]).setup == "calm"
    assert wrong_data([comparison], "fast").startswith("wrong data in 2")
    assert [each.wrong for each in reaches(["plain", "fast"], outcomes, records)] == [0, 2]


def test_no_range_goes_over_a_size_at_which_there_is_nobody_to_take() -> None:
    outcomes, records = measured({"plain": (1.0,) * 4, "mixed": (0.8, 1.2, 0.8, 0.8)})
    outcomes.append(LaunchOutcome("plain", BLOCKS, 0, "", 1.0, "had not ended after 3 s"))
    comparison = compared(["plain", "mixed"], outcomes, records)
    assert [(c.setup, c.first_bytes, c.last_bytes) for c in choices(comparison)] == [
        ("mixed", 1024, 1024),
        ("mixed", 4096, 8192),
    ]


def flagged(flags: dict[str, dict[str, Any]]) -> Comparison:
    """A series whose setups differ by flags of ``run``, all of them 20 % faster than the first."""
    factors = {name: (1.0 if not position else 0.8,) * 4 for position, name in enumerate(flags)}
    outcomes, records = measured(factors)
    for outcome in outcomes:
        record, own = records[outcome.folder], flags[outcome.setup]
        where = "one place (hot)" if own.get("hot") else "rotating"
        method = replace(record.method, buffers=f"{where}, {own.get('buffers', 'device')} memory")
        graph = replace(record.plan.options, graph=own.get("cudagraph", 0))
        settings = {"hot": False, "cudagraph": 0, "buffers": "device", "unalign": 0, **own}
        records[outcome.folder] = replace(
            record, method=method, settings=settings, plan=replace(record.plan, options=graph)
        )
    return compared(flags, outcomes, records)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"hot": True}, "--hot on against off"),
        ({"buffers": "nccl"}, "--buffers nccl against device"),
        ({"unalign": 1}, "--unalign 1 against 0"),
        ({"cudagraph": 8}, "--cudagraph 8 against 0"),
    ],
)
def test_what_setups_vary_on_purpose_is_judged_and_said(own: dict[str, Any], words: str) -> None:
    found = flagged({"plain": {}, "other": own})
    assert {row.verdict for row in found.rows} == {Verdict.FASTER}
    assert {row.note for row in found.rows} == {words}
    assert not found.flags
    assert any("graph is replayed" in note for note in found.notes) is ("cudagraph" in own)
    assert any(line.endswith(f"FASTER: with {words}") for line in table(found, every_row=True))


def test_what_no_flag_explains_is_ranked_only() -> None:
    made = flagged({"plain": {}, "other": {"cudagraph": 8}})
    other = replace(made.candidates[0], buffers="managed memory")
    assert {row.verdict for row in compare([made.baseline, other]).rows} == {Verdict.AMBIGUOUS}
    single = replace(made.candidates[0], definition="busbw latency, max, graph")
    assert {row.verdict for row in compare([made.baseline, single]).rows} == {Verdict.AMBIGUOUS}
    apart = [replace(arm, series="") for arm in (made.baseline, made.candidates[0])]
    assert {row.verdict for row in compare(apart).rows} == {Verdict.AMBIGUOUS}
