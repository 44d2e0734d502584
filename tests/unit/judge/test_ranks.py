"""Who was late, from ranks whose arrival is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from busbw_testing.ranks_of_a_case import LATE, arrivals, digest_rows, make_record, sample_rows

from busbw.judge.ranks import Order, RankTable, rank_table
from busbw.model.record import RunRecord
from busbw.model.result import CaseResult, Status
from busbw.model.sample import MIN_OVER_RANKS, SampleFlag


def table_of(
    own_ns: np.ndarray = LATE,
    record: RunRecord | None = None,
    *,
    rows: np.ndarray | None = None,
    operation: str = "all_reduce",
    mode: str = "latency",
    k: int = 1,
) -> RankTable:
    """Of ranks with these times, where ``rows`` says nothing else of which a single call is kept."""
    record = record or make_record(len(own_ns), operation, mode)
    return rank_table(record, 0, sample_rows(own_ns, k=k) if rows is None else rows, digest_rows(own_ns, k=k))


@pytest.mark.parametrize("rank", range(4))
def test_the_late_rank_is_the_one_with_the_shortest_time(rank: int) -> None:
    table = table_of(arrivals([200_000.0 if r == rank else 0.0 for r in range(4)]))
    assert table.order is Order.TOLD
    assert table.latest is not None
    assert table.latest.rank == rank == table.shortest.rank
    assert table.longest.rank != rank
    assert table.latest.certain
    assert table.latest.low_ns <= table.latest.wait_ns <= table.latest.high_ns
    # The next to last of three ranks with noise of 1 us comes 0.85 us after the middle of it.
    assert table.latest.wait_ns == pytest.approx(199_150, abs=300)
    assert table.latest.call_ns == pytest.approx(20_000, abs=1)
    assert table.latest.shortest_share == 1.0


def test_the_time_over_t_last_orders_ranks_by_arrival() -> None:
    table = table_of(arrivals([0.0, 300_000.0, 100_000.0, 200_000.0]))
    over = [rank.over_last_ns for rank in table.ranks]
    assert over == pytest.approx([300_000, 0, 200_000, 100_000], abs=400)
    assert [rank.shortest_share for rank in table.ranks] == [0.0, 1.0, 0.0, 0.0]


def test_a_wait_shorter_than_the_call_may_be_an_early_exit() -> None:
    latest = table_of(arrivals([0.0, 10_000.0], call_ns=20_000)).latest
    assert latest is not None
    assert (latest.rank, latest.certain) == (1, False)


@pytest.mark.parametrize("ranks", [2, 4, 16])
def test_equal_ranks_are_not_accused(ranks: int) -> None:
    named = [table_of(arrivals([0.0] * ranks, samples=60, seed=seed)).latest for seed in range(60)]
    assert sum(latest is not None for latest in named) <= 3  # 1 % each


def test_of_two_ranks_that_are_late_together_neither_is_named() -> None:
    table = table_of(arrivals([0.0, 200_000.0, 0.0, 200_000.0]))
    assert table.latest is None
    assert [(rank.over_last_ns or 0.0) > 100_000 for rank in table.ranks] == [True, False, True, False]


def test_too_few_samples_name_nobody() -> None:
    own = arrivals([0.0, 200_000.0], samples=8)
    assert table_of(own).latest is not None
    assert table_of(own[:, :7]).latest is None


@pytest.mark.parametrize(
    ("operation", "mode", "order"),
    [
        ("all_reduce", "throughput", Order.IN_STEP),
        ("all_gather", "latency", Order.TOLD),
        ("broadcast", "latency", Order.ROOTED),
        ("reduce", "throughput", Order.ROOTED),
        ("sendrecv", "latency", Order.NEIGHBOURS),
    ],
)
def test_the_order_is_told_only_where_times_tell_it(operation: str, mode: str, order: Order) -> None:
    table = table_of(arrivals([0.0, 0.0, 200_000.0]), operation=operation, mode=mode)
    assert table.order is order
    if order is not Order.TOLD:
        assert table.latest is None
        assert {(rank.over_last_ns, rank.shortest_share) for rank in table.ranks} == {(None, None)}


def test_the_order_of_a_grouped_operation_is_that_of_groups() -> None:
    record = make_record()
    grouped = replace(record, plan=replace(record.plan, groups=((0, 1), (2, 3))))
    assert table_of(record=grouped).order is Order.GROUPS


def test_with_raw_samples_of_some_ranks_nobody_is_named() -> None:
    samples = sample_rows(LATE, raw=(0, 1))
    table = table_of(rows=samples)
    assert table.order is Order.NOT_KEPT
    assert (table.raw_ranks, table.world_size, table.latest) == (2, 4, None)
    assert table.shortest.rank == 2  # by its digest
    # T_last is kept by itself, so the ranks that have samples know how far they are from it.
    assert table.ranks[0].over_last_ns == pytest.approx(200_000, abs=400)
    assert table.ranks[2].over_last_ns is None
    assert table_of(rows=samples[samples["rank"] != MIN_OVER_RANKS]).ranks[0].over_last_ns is None


def test_times_are_those_of_one_call() -> None:
    rank = table_of(np.tile(np.arange(1, 101) * 400, (2, 1)), k=4).ranks[1]
    assert (rank.median_ns, rank.max_ns, rank.issue_ns) == (5050, 10_000, 5050)
    assert rank.p95_ns == pytest.approx(9505)
    assert (rank.host, rank.local_rank, rank.device, rank.samples) == ("node0", 1, "GPU 1", 100)


def test_samples_that_a_cut_file_has_of_some_ranks_are_compared_where_all_have_them() -> None:
    table = table_of(rows=sample_rows(LATE)[:-250])  # the last rank keeps its first 50
    assert table.latest is not None
    assert table.latest.rank == 2
    assert table.ranks[0].over_last_ns == np.median((LATE - LATE.min(axis=0))[0, :50])


def test_the_pass_of_single_calls_is_not_mixed_in() -> None:
    other = sample_rows(LATE[::-1])
    other["flags"] = SampleFlag.SINGLE_CALL
    assert table_of(rows=np.concatenate((other, sample_rows(LATE)))) == table_of()


@pytest.mark.parametrize(
    ("conditions", "time", "known"),
    [((), "max", True), (("contended",), "max", False), ((), "loop", False)],
)
def test_a_core_that_nobody_asked_about_is_not_zero(
    conditions: tuple[str, ...], time: str, known: bool
) -> None:
    record = make_record(2)
    results = (CaseResult(0, Status.GOOD, conditions=conditions),)
    plan = replace(record.plan, timing=replace(record.plan.timing, time=time))
    table = table_of(arrivals([0.0, 0.0]), replace(record, results=results, plan=plan))
    assert [rank.run_delay_ns for rank in table.ranks] == [0 if known else None] * 2
