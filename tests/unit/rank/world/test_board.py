"""The board: ranks are threads that each map the memory, or real processes of a world."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from busbw.machine.native.board import BOARD_BYTES, arrive, wait
from busbw.rank.world import board
from busbw.rank.world.board import MOST_NUMBERS, Board
from busbw.rank.world.channel_root import Hub, reduce_rows
from busbw.rank.world.wire import Op

if TYPE_CHECKING:
    from conftest import Ranks

RANKS = 16
FOREVER_NS = 60_000_000_000


@pytest.fixture
def boards() -> list[Board]:
    """One of each rank."""
    fd, offer = board._offer(board._size_bytes(RANKS))
    opened = [board._opened(offer.decode(), rank, RANKS) for rank in range(RANKS)]
    os.close(fd)
    return [each for each in opened if each is not None]


def given(op: Op, meeting: int, rank: int) -> np.ndarray:
    """What a rank gives to a meeting: sums that depend on their order, and lengths from 0 to a whole row."""
    count = (0, 1, 2, 7, 1000, MOST_NUMBERS)[meeting % 6]
    numbers = np.random.default_rng((meeting, rank)).normal(scale=1e6, size=count)
    return numbers if "FLOAT" in op.name else numbers.astype(np.int64)


def test_ranks_of_any_pace_get_the_bits_that_the_channel_would_give(boards: list[Board]) -> None:
    assert len(boards) == RANKS
    ops = (Op.MAX_FLOAT64, Op.MAX_INT64, Op.SUM_FLOAT64, Op.SUM_INT64)
    meetings = [(meeting, ops[meeting % len(ops)]) for meeting in range(1, 121)]
    results: list[list[bytes]] = [[] for _ in range(RANKS)]

    def run(rank: int) -> None:
        pace = np.random.default_rng(rank)
        for meeting, op in meetings:
            time.sleep(pace.choice([0, 0, 0, 0.002]))
            values = given(op, meeting, rank)
            assert boards[rank].meet(meeting, op, values, lambda: True)
            time.sleep(pace.choice([0, 0, 0, 0.002]))  # others go on meanwhile
            results[rank].append(reduce_rows(op, boards[rank].values(values)).tobytes())

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    hub, expected = Hub(RANKS), []
    for meeting, op in meetings:
        bodies = [given(op, meeting, rank).tobytes() for rank in range(RANKS)]
        said = [hub.contribute(rank, op, meeting, body) for rank, body in enumerate(bodies)]
        assert said[-1] is not None
        expected.append(said[-1].body)
    assert all(result == expected for result in results)


def test_who_waits_sleeps_and_hears_that_it_is_not_quiet_any_more(boards: list[Board]) -> None:
    nothing, heard, began_s = np.empty(0, np.int64), iter([True] * 30 + [False]), time.thread_time()
    assert not boards[0].meet(1, Op.BARRIER, nothing, lambda: next(heard))
    assert next(heard, None) is None
    assert time.thread_time() - began_s < 0.1  # of the 0.3 s that 30 looks take


def test_meetings_are_counted_beyond_32_bits() -> None:
    memory = np.zeros(BOARD_BYTES // 4, np.uint32)
    before = 2**32 - 1
    memory[0], memory[16] = before * 3 % 2**32, before
    address = memory.ctypes.data
    for meeting in (2**32, 2**32 + 1):
        for _ in range(3):
            assert not wait(address, meeting, 0, 1000)
            arrive(address, 3, meeting)
        assert wait(address, meeting, 0, FOREVER_NS)


def test_memory_of_another_name_is_not_taken_for_the_board() -> None:
    fd, offer = board._offer(board._size_bytes(2))
    other, _ = board._offer(board._size_bytes(2))
    path, _, link = offer.decode().partition(" ")
    assert board._opened(f"{path} {link}", 1, 2) is not None
    assert board._opened(f"/proc/{os.getpid()}/fd/{other} {link}", 1, 2) is None
    assert board._opened(f"/proc/{os.getpid()}/fd/-1 {link}", 1, 2) is None
    os.close(fd)
    os.close(other)


def results(ranks: Ranks, size: int) -> list[dict[str, Any]]:
    found = [ranks.event(str(rank), "results") for rank in range(size)]
    assert set(ranks.exit_codes().values()) == {0}
    return found


@pytest.mark.parametrize(
    ("rank", "without"),
    [(1, ("unshare", "--user")), (0, ("sh", "-c", 'ulimit -f 16; exec "$0" "$@"'))],
    ids=["may not open it", "may not make it"],
)
def test_without_a_board_all_keep_to_the_channel(ranks: Ranks, rank: int, without: tuple[str, ...]) -> None:
    if subprocess.run([*without, "true"], check=False).returncode != 0:
        pytest.skip("needs user name spaces")
    ranks.start("collectives", rank, 2, before=without)
    ranks.start("collectives", 1 - rank, 2)
    first, second = results(ranks, 2)
    assert (first["board"], second["board"]) == (False, False)
    assert first["many"] == second["many"]


def test_ranks_that_share_a_core_meet_too(ranks: Ranks) -> None:
    one = ("taskset", "--cpu-list", str(min(os.sched_getaffinity(0))))
    for rank in range(3):
        ranks.start("collectives", rank, 3, before=one)
    assert all(result["board"] for result in results(ranks, 3))
