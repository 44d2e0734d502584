"""Exact text: what is said about a rank must be what its times tell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.judge.ranks import Latest, Order, RankTable, RankTimes
from busbw.model.plan import Plan, Timing
from busbw.report.ranks import conclusions, rank_lines

FIRST = RankTimes(0, "node0", 0, "H200", 300, 218_600.0, 231_900.0, 328_900.0, 0, 10.0, 202_400.0, 0.0)
SECOND = RankTimes(1, "node10", 0, "H200", 300, 15_560.0, None, 123_100.0, 4_000, None, 0.0, 1.0)
LATEST = Latest(1, 0.97, 202_400.0, 202_100.0, 202_700.0, 15_560.0)


def table(order: Order = Order.TOLD, latest: Latest | None = LATEST, k: int = 1) -> RankTable:
    return RankTable(0, order, k, 2, 2, (FIRST, SECOND), latest=latest)


def test_the_table(plan: Plan) -> None:
    latency = replace(plan, timing=Timing(mode="latency", arrival="late-one"))
    assert rank_lines(latency, table()) == [
        "# case     0: all_reduce sum float 1024 B out-of-place",
        "# time     of one call, each rank's own; a sample is one call, timed from entry to exit",
        "# arrival  late-one: ranks were delayed on purpose",
        "# rank    host  local  samples  median    p95    max  no core  issue  over T_last  shortest  device",
        "#                                 (us)   (us)   (us)     (us)   (us)         (us)        in",
        "     0   node0      0      300   218.6  231.9  328.9     0.00   0.01        202.4      0.0%  H200",
        "     1  node10      0      300   15.56    n/a  123.1     4.00    n/a         0.00      100%  H200",
        (
            "# longest  rank 0 on node0: median 218.6 us, 14.0 times the shortest (rank 1 on node10);"
            " it came first or left last"
        ),
        (
            "# latest   rank 1 on node10: shortest in 97.0% of the samples;"
            " the next to last waited 202.4 us for it (median; 99% interval 202.1 to 202.7)"
        ),
    ]


@pytest.mark.parametrize(
    ("mode", "k", "words"),
    [
        ("throughput", 4, "a sample is 4 back-to-back calls, so single slow calls are averaged away"),
        ("throughput", 1, "calls follow each other, one a sample"),
        ("latency", 1, "a sample is one call, timed from entry to exit"),
    ],
)
def test_the_head_says_what_a_sample_is(plan: Plan, mode: str, k: int, words: str) -> None:
    lines = rank_lines(replace(plan, timing=Timing(mode=mode)), table(k=k))
    assert lines[1] == f"# time     of one call, each rank's own; {words}"
    assert not any(line.startswith("# arrival") for line in lines)


def test_a_wait_that_an_early_exit_explains_is_not_called_late() -> None:
    told = conclusions(table(latest=replace(LATEST, wait_ns=1_100.0, low_ns=1_040.0, high_ns=1_130.0)))
    assert told[2] == (
        "         no more than the call itself takes (15.56 us): it came last, or it left first"
    )


@pytest.mark.parametrize("order", [order for order in Order if order is not Order.TOLD])
def test_nobody_is_called_late_where_times_do_not_tell(order: Order) -> None:
    told = conclusions(table(order, None))
    assert "came first" not in told[0]
    assert told[1].startswith("latest   unknown: ")
    assert "on node" not in told[1]
    assert ("a rank waits only for its own group" in told[1]) == (order is Order.GROUPS)
    assert ("neighbours" in told[1]) == (order is Order.NEIGHBOURS)


def test_a_rank_to_look_at_is_named_where_samples_are_missing() -> None:
    told = conclusions(replace(table(Order.NOT_KEPT, None), world_size=64))
    assert "2 of 64 ranks" in told[1]
    assert "check rank 1 on node10 first" in told[2]


def test_a_rank_that_the_record_does_not_place(plan: Plan) -> None:
    nowhere = replace(FIRST, host="", local_rank=None, device="")
    lines = rank_lines(plan, RankTable(0, Order.UNKNOWN, 0, 2, 0, (nowhere, SECOND)))
    assert lines[4].split()[:3] == ["0", "n/a", "n/a"]
    assert lines[4].endswith("n/a")
    assert "rank 0: median" in lines[6]
