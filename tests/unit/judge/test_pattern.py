"""Who exchanges what with whom: what differs in it is neither compared with a verdict nor expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from busbw_testing.compared import record_of

from busbw.errors import UsageError
from busbw.judge.compare import Rule, Verdict, compare
from busbw.judge.compare_arms import make_arm
from busbw.judge.expectation import Judgement, expect
from busbw.judge.own_reference import launches_of, reference_of, refuse_several_kinds
from busbw.judge.pattern import pattern_of, where
from busbw.judge.references.load import dump, parse
from busbw.judge.references.reference import Reference
from busbw.judge.scaling import Measured, scaling
from busbw.model.counts import CountTable
from busbw.model.record import ImportSource, Method, RunRecord
from busbw.plan.router import skew_table, spread_table
from busbw.report.compare_expectation import table

NEIGHBOURS = ((0, 1), (2, 3))
STRIDED = ((0, 2), (1, 3))
TIMES = {1024: [10.0, 10.01] * 5, 2048: [20.0, 20.01] * 5}


def grouped(groups: Sequence[Sequence[int]], size: int = 4, *, hosts: int = 1) -> RunRecord:
    """A run whose numbers are those of groups."""
    return record_of(TIMES, ranks=size, hosts=hosts, plan={"groups": tuple(map(tuple, groups))})


def in_turn(record: RunRecord) -> RunRecord:
    """The same run with its ranks dealt out to two hosts in turn."""
    assert record.world is not None
    ranks = tuple(replace(rank, host=f"node{rank.rank % 2}") for rank in record.world.ranks)
    return replace(record, world=replace(record.world, ranks=ranks))


def coalesced(*ratios: int) -> RunRecord:
    record = record_of(TIMES)
    cases = tuple(replace(case, coalesce=ratios) for case in record.plan.cases)
    return replace(record, plan=replace(record.plan, cases=cases))


def with_counts(*tables: CountTable) -> RunRecord:
    return record_of(TIMES, operation="alltoallv", plan={"counts": tables})


def with_pairs(*pairs: tuple[int, int]) -> RunRecord:
    return record_of(TIMES, operation="permute", plan={"pairs": pairs})


def pattern(record: RunRecord) -> str:
    return pattern_of(record, record.plan.cases[0])


def saved(record: RunRecord, name: str = "mine") -> Reference:
    """A reference of a run, as its file has it."""
    (made,) = reference_of(name, record, launches_of([record]))
    (read,) = parse(dump((made,)), "file")
    return replace(read, source="another run")


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (record_of(TIMES), ""),
        (grouped(((0, 1, 2, 3),)), ""),
        (grouped(NEIGHBOURS), "2 groups at once 0,1 | 2,3"),
        (grouped((tuple(range(8)), tuple(range(8, 16))), 16), "2 groups at once 0-7 | 8-15"),
        (grouped((tuple(range(0, 16, 2)), tuple(range(1, 16, 2))), 16), "2 groups at once 0-14/2 | 1-15/2"),
        (grouped(((1, 0, 2, 3),)), "1 group 1,0,2,3"),
        (coalesced(1, 2, 1), "coalesced 1,2,1"),
        (with_counts(skew_table(1.9, "alltoallv", 2)), "counts skew 1.9"),
        (with_counts(spread_table(0.5, 2)), "counts spread 0.5"),
        (with_counts(skew_table(1.9, "all_gatherv", 2)), ""),
        (with_pairs((0, 1), (1, 0)), ""),
        (with_pairs((1, 1), (0, 0)), "pairs 0->0, 1->1"),
    ],
)
def test_the_words_are_of_what_differs(record: RunRecord, words: str) -> None:
    assert pattern(record) == words


def test_where_groups_are_is_told_where_hosts_are_known() -> None:
    assert where(record_of(TIMES)) == where(grouped(((0, 1, 2, 3),))) == ""
    assert where(grouped(NEIGHBOURS)) == "of 4 ranks"
    assert where(grouped(NEIGHBOURS, hosts=2)) == "of 4 ranks, each on 1 node"
    assert where(grouped(STRIDED, hosts=2)) == "of 4 ranks, each on 2 nodes"


def test_groups_of_an_imported_log_are_seen() -> None:
    plain = record_of(TIMES, ranks=4)
    assert plain.world is not None
    ranks = tuple(replace(rank, facts={"group": rank.rank % 2}) for rank in plain.world.ranks)
    log = ImportSource("x.log", "nccl-tests")
    listed = replace(plain, source=log, world=replace(plain.world, size=2, ranks=ranks))
    assert (pattern(listed), where(listed)) == ("2 groups at once 0,2 | 1,3", "of 4 ranks")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (record_of(TIMES), grouped(NEIGHBOURS)),
        (grouped(NEIGHBOURS), grouped(STRIDED)),
        (grouped(NEIGHBOURS, hosts=2), in_turn(grouped(NEIGHBOURS, hosts=2))),
        (grouped(NEIGHBOURS), grouped(NEIGHBOURS, 8)),
        (record_of(TIMES), coalesced(1, 2, 1)),
        (record_of(TIMES, operation="alltoallv"), with_counts(skew_table(1.9, "alltoallv", 2))),
        (record_of(TIMES, operation="permute"), with_pairs((0, 0), (1, 1))),
    ],
)
def test_another_pattern_is_another_case_and_no_reference(one: RunRecord, other: RunRecord) -> None:
    for before, after in ((one, other), (other, one)):
        arms = [make_arm("before", [before]), make_arm("after", [after])]
        found = compare(arms, Rule(detect=1.0))
        assert not {row.verdict for row in found.rows} & {Verdict.FASTER, Verdict.SLOWER, Verdict.SAME}
        known = saved(before)
        judged = expect([after], [known])
        assert {case.answer for case in judged.cases} == {Judgement.NO_REFERENCE}
        assert judged.unmatched["mine"].startswith("it is ")
        again = expect([before], [known])
        assert {case.answer for case in again.cases} == {Judgement.EXPECTED}
        assert not again.unmatched


def test_scaling_has_a_curve_of_each_pattern() -> None:
    records = [record_of({1024: 10.0}), grouped(NEIGHBOURS), coalesced(1, 2, 1)]
    rows = [row for row in scaling([Measured(each, {}) for each in records]) if row.key.size_bytes == 1024]
    assert [row.runs for row in rows] == [1, 1, 1]
    patterns = ["", "2 groups at once 0,1 | 2,3, of 4 ranks", "coalesced 1,2,1"]
    assert [row.key.pattern for row in rows] == patterns
    assert rows[1].key.kind.endswith("out-of-place, 2 groups at once 0,1 | 2,3, of 4 ranks")


def test_other_buffers_decide_nothing() -> None:
    known = saved(record_of(TIMES))
    for words in ("one place (hot)", "rotating, misaligned by 1 elements"):
        run = replace(record_of(TIMES, name="run"), method=Method(buffers=words))
        found = expect([run], [known])
        assert {case.answer for case in found.cases} == {Judgement.UNDECIDED}
        assert found.notes[-1] == f"other buffers: the run {words}; mine rotating"
        mixed = [record_of(TIMES, name="a"), run]
        with pytest.raises(UsageError, match="buffers: rotating and "):
            refuse_several_kinds("mine", mixed)
    unsaid = replace(known, buffers="")
    assert {case.answer for case in expect([run], [unsaid]).cases} == {Judgement.EXPECTED}


def test_rows_say_what_the_references_that_fit_do_not_have() -> None:
    known = saved(record_of(TIMES))
    other = record_of({4096: [40.0, 40.0, 40.1]})
    found = expect([other], [known])
    assert [case.why for case in found.cases] == ["no reference has this size"]
    assert "# against  no reference: mine would fit, except for what the rows say" in table(found)
    points = tuple(replace(point, placement="in-place") for point in known.points)
    found = expect([record_of(TIMES)], [replace(known, points=points)])
    assert {case.why for case in found.cases} == {"no reference has out-of-place"}
    double = record_of(TIMES, name="double")
    cases = tuple(replace(case, dtype="double") for case in double.plan.cases)
    double = replace(double, plan=replace(double.plan, cases=cases))
    found = expect([record_of(TIMES), double], [known])
    assert [(case.key.dtype, case.answer, case.why) for case in found.cases[:1]] == [
        ("double", Judgement.NO_REFERENCE, "mine: it is of float, the run of double")
    ]


@pytest.mark.parametrize("fields", [{"version": "4.0"}, {"device": "EPYC"}])
def test_an_arm_of_several_versions_or_devices_is_ranked_only(fields: dict[str, str]) -> None:
    plain = make_arm("plain", [record_of(TIMES), record_of(TIMES)])
    mixed = make_arm("mixed", [record_of(TIMES), record_of(TIMES, **fields)])
    rule = Rule(detect=1.0)
    assert {row.verdict for row in compare([plain, plain], rule).rows} == {Verdict.SAME}
    for arms in ([plain, mixed], [mixed, plain]):
        found = compare(arms, rule)
        assert {row.verdict for row in found.rows} == {Verdict.AMBIGUOUS}
        assert "mixed is of" in found.flags[0]
