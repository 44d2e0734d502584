from __future__ import annotations

import pytest

from busbw.launchers.first_dead import RankEnd, first_dead, survivors

# What ranks and mpirun of Open MPI 5.0.11 printed, rank 1 having been killed.
CLOSED = ("[h2:00000] *** An error occurred in Socket closed", "[h2:00000] *** on a NULL communicator")
PEER = ("An MPI communication peer process has unexpectedly disconnected.  This", "  Peer host:  h3")
ABORT = (
    "prterun has exited due to process rank 0 with PID 0 on node h2 calling",
    '"abort". This may have caused other processes in the application to be',
)


def end(rank: int, *, said: bool = False, swept: bool = False) -> RankEnd:
    return RankEnd(rank, said, swept)


@pytest.mark.parametrize(
    "ends",
    [
        (end(1), end(0), end(2, said=True)),
        (end(0), end(1), end(2, said=True)),  # the survivor's abort was heard first
        (end(2, said=True), end(0), end(1)),
        (end(0), end(1), end(2)),  # and a third was killed before it could say anything
        (end(2, swept=True), end(0), end(1)),
    ],
)
def test_a_survivor_that_aborts_is_not_the_cause(ends: tuple[RankEnd, ...]) -> None:
    assert first_dead(range(3), ends, {0: CLOSED}, ABORT) == 1


def test_the_order_decides_where_nobody_says_more() -> None:
    assert first_dead(range(3), (end(2), end(0), end(1)), {}, ()) == 2
    assert first_dead((0, 1), (end(2), end(1), end(0)), {}, ()) == 1  # among those of one host


def test_no_name_where_one_was_not_seen_to_end() -> None:
    assert first_dead(range(3), (end(0), end(2)), {}, ()) is None


def test_nobody_died_where_all_took_their_leave() -> None:
    assert first_dead(range(2), (end(0, said=True), end(1, said=True)), {}, ()) is None
    assert first_dead(range(2), (end(0, swept=True), end(1, said=True)), {}, ()) is None


def test_a_rank_that_aborts_by_itself_is_the_cause() -> None:
    assert survivors({}, ABORT) == set()
    assert first_dead(range(2), (end(0), end(1, said=True)), {1: ("other words",)}, ABORT) == 0


def test_who_lost_a_connection_is_read_from_its_words() -> None:
    assert survivors({0: CLOSED, 1: ("fine",), 2: PEER}, ()) == {0, 2}
    assert survivors({2: PEER}, ABORT) == {0, 2}
