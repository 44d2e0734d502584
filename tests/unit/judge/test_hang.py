"""Who a job waits for: from two looks at NCCL's counts, and from flight recorders."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.judge.hang import judge_counts, judge_records, suspects
from busbw.model.hang import Communicator, Group, HostSeen, JobSeen, ProcessSeen, RankSeen, Recorded


def ranks(*counts: int, host: str = "h", first: int = 0) -> tuple[RankSeen, ...]:
    return tuple(
        RankSeen(rank, host, 100 + first + rank, counts={"AllReduce": count, "Broadcast": 1})
        for rank, count in enumerate(counts)
    )


def job(*communicators: Communicator) -> JobSeen:
    return JobSeen("2.28.9", communicators)


def of(*counts: int, name: str = "c", first: int = 0) -> Communicator:
    return Communicator(name, len(counts), ranks(*counts, first=first))


def test_the_late_rank_is_named_and_the_others_wait() -> None:
    still = job(of(301, 300, 301))
    answer = judge_counts(
        still, still, {"h": HostSeen({101: ProcessSeen("S", stack=("step (train.py:3)",))})}, 5
    )
    assert answer.is_hung
    assert (
        answer.answer
        == "rank 1 (pid 101 on h) has not entered AllReduce 301; 2 other ranks wait in AllReduce 301"
    )
    assert [(each.ranks, each.state) for each in answer.states] == [
        ((1,), "not entered, sleeps"),
        ((0, 2), "waits"),
    ]
    assert any("step (train.py:3)" in line for line in answer.evidence)


@pytest.mark.parametrize(
    ("state", "words"),
    [("T", "process is stopped"), ("", "process is gone"), ("Z", "process has ended")],
)
def test_what_the_kernel_says_of_the_late_rank_is_said(state: str, words: str) -> None:
    still = job(of(301, 300))
    assert words in judge_counts(still, still, {"h": HostSeen({101: ProcessSeen(state)})}, 5).answer


def test_a_rank_that_does_not_answer_is_named() -> None:
    alive, dead = ranks(5501, 5501)
    still = job(Communicator("c", 2, (alive, replace(dead, is_missing=True, counts={}))))
    answer = judge_counts(still, still, {}, 5)
    assert answer.answer.startswith("rank 1 (pid 101 on h) does not answer; 1 other rank waits")


def test_a_rank_that_goes_on_in_another_communicator_is_not_late() -> None:
    still = of(10, 9, name="a")
    before, after = job(still, of(4, 4, name="b")), job(still, of(4, 6, name="b"))
    answer = judge_counts(before, after, {}, 5)
    assert answer.is_hung is False
    assert "no hang" in answer.answer


def test_all_alike_and_still_is_not_called_healthy() -> None:
    still = job(of(301, 301))
    answer = judge_counts(still, still, {}, 5)
    assert answer.is_hung is None
    assert "sends" in answer.unseen


def test_who_waits_in_another_communicator_is_not_named() -> None:
    """Rank 0 of the second waits in the first for rank 1 there; so its second one waits for it."""
    first, second = of(10, 9, name="a"), of(4, 5, name="b")  # processes 100, 101 and 100, 101
    other = replace(second, ranks=(second.ranks[0], replace(second.ranks[1], pid=200)))
    still = job(first, other)
    assert [rank.process for rank in suspects(still, still)] == [("h", 101)]


def recorded(number: int, state: str = "completed", size: int = 8, operation: str = "all_reduce") -> Recorded:
    return Recorded(number, operation, ((size,),), ("Float",), state, (f"step (train.py:{size})",))


def group(*entries: dict[int, Recorded], members: int = 0) -> Group:
    return Group("0", tuple(range(members or len(entries))), dict(enumerate(entries)))


def test_a_rank_that_left_a_call_out_is_named() -> None:
    done, waits = {1: recorded(1)}, {1: recorded(1), 2: recorded(2, "started")}
    answer = judge_records([group(waits, done, waits)])
    assert answer.is_hung
    assert answer.answer == "rank 1 has not entered all_reduce 2 of group 0; 2 ranks wait in it"


def test_another_size_is_a_different_call() -> None:
    usual, odd = {1: recorded(1, "started")}, {1: recorded(1, "started", size=9)}
    answer = judge_records([group(usual, usual, odd)])
    assert answer.answer.startswith("rank 2 called all_reduce 9 Float where others called all_reduce 8 Float")
    assert len([line for line in answer.evidence if "train.py" in line]) == 2


def test_a_rank_without_a_dump_is_not_called_late() -> None:
    answer = judge_records([group({1: recorded(1, "started")}, members=2)])
    assert answer.is_hung is None
    assert "rank 1 left no dump" in answer.answer


def test_all_in_one_call_is_the_network_or_a_gpu() -> None:
    waits = {1: recorded(1, "started")}
    answer = judge_records([group(waits, waits)])
    assert answer.is_hung is None
    assert "a GPU or the network" in answer.answer
