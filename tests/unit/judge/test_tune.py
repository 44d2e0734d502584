"""What a race showed: winners, nothing to gain, and tables as their readers take them."""

from __future__ import annotations

import csv
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from busbw.judge.compare import Verdict
from busbw.judge.compare_arms import CaseKey
from busbw.judge.tune import Tuned, Tuning, confirmed, lost_arm, nodes_of, races, table_text
from busbw.model.arm import FUNCTIONS, Arm, arms_of
from busbw.model.case import Case
from busbw.model.collective import Placement
from busbw.model.plan import Limits, Plan
from busbw.model.record import HostInfo, RankInfo, RunRecord, RunStatus, WorldInfo
from busbw.model.result import CaseResult, Status
from busbw.report.tune import lines
from busbw.stats.passes import estimate_over

RING, TREE, RING_BY_NCCL = Arm("RING", "LL128", 24), Arm("TREE", "LL", 8), Arm("RING", "LL128", 0)


def record_of(*races: tuple[int, dict[str, Any]]) -> RunRecord:
    """Of all_reduce: by size, (low, time, high) in us by arm, or a status."""
    cases, results = [], []
    for size, arms in races:
        for arm, seen in arms.items():
            index = len(cases)
            own = ("all_reduce", "float", "sum", -1, size, size, size // 4, Placement.OUT_OF_PLACE)
            cases.append(Case(index, *own, arm=arm))
            if isinstance(seen, Status):
                results.append(CaseResult(index, seen))
            else:
                low, time, high = (1000.0 * us for us in seen)
                results.append(CaseResult(index, Status.GOOD, time_ns=time, low_ns=low, high_ns=high))
    plan = Plan("nccl", tuple(cases), 1024, Limits(), 1, 0)
    created = "2026-11-28T12:00:00+00:00"
    return RunRecord(1, "r", "0", created, (), {}, plan, RunStatus.COMPLETE, results=tuple(results))


def test_a_winner_is_faster_than_the_intervals_leave_open() -> None:
    arms = {"": (99, 100, 101), str(RING): (89, 90, 91), str(TREE): (119, 120, 121)}
    (found,) = races(record_of((64, arms)))
    assert (found.arm, found.gain, found.tried) == (str(RING), pytest.approx(0.1), 2)
    assert found.gain_low == pytest.approx(1 - 91 / 99)
    (same,) = races(record_of((64, {"": (99, 100, 101), str(RING): (97.5, 98.5, 99.5)})))
    assert not same.arm
    assert same.hidden == pytest.approx(1 - 97.5 / 101)


def test_wrong_data_and_what_cannot_be_done_never_win() -> None:
    arms = {"": (99, 100, 101), str(RING): Status.WRONG, str(TREE): Status.NOT_APPLICABLE}
    (found,) = races(record_of((64, arms)))
    assert (found.arm, found.tried, found.wrong) == ("", 0, (str(RING),))


def test_the_arm_that_ended_a_race_was_visited_last_or_is_the_first_that_did_not_run() -> None:
    arms: dict[str, Any] = {"": (99, 100, 101), str(RING): (89, 90, 91), str(TREE): (79, 80, 81)}
    late = record_of((64, arms), (128, {"": Status.NOT_RUN, str(TREE): Status.NOT_RUN}))
    assert lost_arm(late, None) == ""  # how NCCL does it by itself
    assert lost_arm(late, 1) == f"all_reduce {RING}"
    died = record_of((64, {**arms, str(RING): Status.NOT_RUN, str(TREE): Status.NOT_RUN}))
    assert lost_arm(died, None) == f"all_reduce {RING}"


def test_nothing_is_claimed_where_an_interval_is_missing_and_the_size_is_told() -> None:
    record = record_of((64, {"": (99, 100, 101), str(RING): (89, 90, 91)}))
    default, ring = record.results
    (open_default,) = races(replace(record, results=(replace(default, low_ns=None, high_ns=None), ring)))
    assert (open_default.arm, open_default.tried) == ("", 1)
    assert open_default.hidden == pytest.approx(1 - 89 / 100)
    (dropped,) = races(replace(record, results=(default, replace(ring, low_ns=None, high_ns=None))))
    assert (dropped.arm, dropped.tried) == ("", 1)


def test_of_arms_that_are_alike_the_neighbours_winner_is_taken_then_one_with_fewest_stated_channels() -> None:
    wide, half = Arm("RING", "LL128", 32), Arm("RING", "LL128", 16)
    times = {str(wide): (79, 80, 81), str(RING): (79.4, 80.4, 81.4), str(half): (80.9, 82, 83)}
    (found,) = races(record_of((64, {"": (99, 100, 101), **times})))
    assert found.arm == str(RING)  # 16 channels may be as fast, and look 2.5 % slower
    alike = {"": (99, 100, 101), str(RING_BY_NCCL): (79, 80, 81), str(RING): (79.5, 80.5, 81.5)}
    (found,) = races(record_of((64, alike)))
    assert found.arm == str(RING)
    first = (32, {"": (99, 100, 101), str(TREE): (69, 70, 71), str(RING): (89, 90, 91)})
    second = (64, {"": (99, 100, 101), str(TREE): (79.5, 80.5, 81.5), str(RING): (79, 80, 81)})
    assert [each.arm for each in races(record_of(first, second))] == [str(TREE)] * 2


def test_of_200_races_of_identical_arms_none_has_a_winner() -> None:
    """Nine passes as the sampler takes them, whose levels differ by 1 %."""
    draw = np.random.default_rng(7)

    def interval() -> tuple[float, float, float]:
        passes = [10 * np.exp(draw.normal(0, 0.01) + draw.normal(0, 0.01, 10)) for _ in range(9)]
        found = estimate_over(passes, 0.99)
        low, high = min(found.low, found.median * 0.9875), max(found.high, found.median * 1.0125)
        return low, found.median, high

    arms = [str(arm) for arm in arms_of("all_reduce")][:48]
    winners = 0
    for _ in range(200):
        (found,) = races(record_of((64, {arm: interval() for arm in ("", *arms)})))
        winners += bool(found.arm)
    assert winners == 0


class _Row:
    def __init__(self, size: int, verdict: Verdict, speedup: float) -> None:
        key = ("all_reduce", "float", "sum", -1, Placement.OUT_OF_PLACE.value, size)
        self.key, self.verdict, self.speedup = CaseKey(*key), verdict, speedup


def tuned(size: int, arm: Arm | None) -> Tuned:
    return Tuned("all_reduce", "float", "sum", size, 1000.0, arm=str(arm or ""), gain=0.1)


def tuning(*found: Tuned, was_confirmed: bool = False) -> Tuning:
    return Tuning(2, 16, found, was_confirmed=was_confirmed)


def test_only_what_fresh_launches_show_is_confirmed() -> None:
    found = tuning(tuned(64, RING), tuned(128, RING), tuned(256, None))
    rows = (_Row(64, Verdict.FASTER, 1.25), _Row(128, Verdict.AMBIGUOUS, 1.02))
    comparison: Any = SimpleNamespace(rows=rows)
    first, second, third = confirmed(found, comparison).tuned
    assert (first.confirmed, first.verdict) == (pytest.approx(0.2), "FASTER")
    assert (second.confirmed, second.verdict) == (None, "AMBIGUOUS")
    assert third.verdict == ""


def rows_as_read(text: str) -> list[dict[str, str]]:
    """As NVIDIA's example describes its file: comments by #, eight to ten columns, the first match wins."""
    names = ["collective", "min", "max", "algorithm", "protocol", "channels", "nodes", "ranks", "ops", "regs"]
    kept = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert all(len(line) < 256 for line in text.splitlines())
    return [dict(zip(names, row, strict=True)) for row in csv.reader(kept)]


def test_a_table_says_for_every_size_what_was_confirmed_and_nothing_else() -> None:
    found = [tuned(64, RING), tuned(128, RING), tuned(256, None), tuned(512, TREE), tuned(1024, RING)]
    found = [replace(each, confirmed=0.1 if each.arm else None) for each in found]
    found[4] = replace(found[4], confirmed=None)
    rows = rows_as_read(table_text(tuning(*found), only_confirmed=True))

    def chosen(size: int) -> str:
        fitting = (row for row in rows if int(row["min"]) <= size <= int(row["max"]))
        row = next(fitting, None)
        return "" if row is None else f"{row['algorithm']}/{row['protocol']}/{row['channels']}"

    assert [chosen(each.size_bytes) for each in found] == [str(RING), str(RING), "", str(TREE), ""]
    assert chosen(63) == ""
    assert len(rows) == 2
    assert {(row["collective"], row["nodes"], row["ranks"]) for row in rows} == {("allreduce", "2", "16")}
    assert len(rows_as_read(table_text(tuning(*found), only_confirmed=False))) == 3


def test_hosts_that_share_nvlink_are_any_number_of_nodes() -> None:
    def world(hosts: int, domain: str) -> WorldInfo:
        names = [f"n{number}" for number in range(hosts)]
        ranks = tuple(RankInfo(rank, name, 1, 0) for rank, name in enumerate(names))
        places = tuple(HostInfo(name, nvlink_domain=domain) for name in names)
        return WorldInfo("nccl", "", hosts, ranks, places)

    worlds = ((1, ""), (4, ""), (1, "rack 1"), (4, "rack 1"))
    assert [nodes_of(world(*own)) for own in worlds] == [1, 4, 1, -1]


def test_every_arm_is_read_back_and_its_chunk_is_an_eleventh_column() -> None:
    arms = [arm for operation in FUNCTIONS for arm in arms_of(operation)]
    assert [Arm.of(str(arm)) for arm in arms] == arms
    chunked = Arm("RING", "SIMPLE", chunk_bytes=131072)
    table = table_text(tuning(tuned(64, chunked)), only_confirmed=False)
    assert table.splitlines()[1] == "allreduce,64,64,ring,simple,-1,2,16,-1,-1,131072"


def test_the_answer_names_the_largest_gain_or_says_that_there_is_none() -> None:
    found = (replace(tuned(64, RING), confirmed=0.08, verdict="FASTER"), tuned(128, None))
    text = lines(tuning(*found, was_confirmed=True), "r")
    assert text[0] == "# 1 of 2 cases gain, at most 8.0% (all_reduce 64 B by RING LL128, 24 channels)"
    assert any("busbw tune r --emit nccl-csv" in line for line in text)
    nothing = lines(tuning(tuned(128, None)), "r")
    assert nothing[0] == "# nothing to gain: NCCL's own choice is as fast as any other (1 case)"
    assert nothing[1] == "# all_reduce: nothing to gain beyond 1.0% at 128 B (0 other ways tried)"
