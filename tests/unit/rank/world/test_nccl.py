"""The TCP world with real processes: what works, and who is named when it breaks."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import zmq

from busbw._version import __version__
from busbw.errors import LauncherMismatch, SiteError, UsageError
from busbw.model.plain import to_bytes
from busbw.rank.world import nccl, sockets
from busbw.rank.world.identity import identify
from busbw.rank.world.rendezvous import candidate_ports
from busbw.rank.world.sockets import Timing
from busbw.rank.world.wire import Kind, Message, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Ranks

# Loaded CI machines are slow to schedule; the behaviour wanted is "well under 10 s".
QUICK_S = 4.0


def test_all_calls_give_the_same_on_every_rank(ranks: Ranks, are_alike: Callable[..., None]) -> None:
    ranks.start_all("collectives", 3)
    results = [ranks.event(str(rank), "results") for rank in range(3)]
    assert set(ranks.exit_codes().values()) == {0}
    are_alike(results, "nccl")
    pids = [ranks.processes[str(rank)].pid for rank in range(3)]
    assert [pid for _, _, pid, _ in results[0]["members"]] == pids


@pytest.mark.parametrize("victim", [0, 2])
def test_killed_rank_is_named_with_its_host_everywhere(ranks: Ranks, host: str, victim: int) -> None:
    ranks.start_all("block", 3)
    for rank in range(3):
        ranks.event(str(rank), "joined")
    killed_s = time.monotonic()
    ranks.processes[str(victim)].kill()
    for rank in {0, 1, 2} - {victim}:
        failure = ranks.event(str(rank), "on_failure", QUICK_S)
        assert (failure["rank"], failure["host"]) == (victim, host)
        assert "process ended" in failure["reason"]
        assert failure["at_s"] - killed_s < QUICK_S
    if victim:  # rank 0's main thread sat in a barrier
        error = ranks.event("0", "error", QUICK_S)
        assert (error["type"], error["rank"], error["host"]) == ("RankFailed", victim, host)
        assert ranks.processes["0"].wait(QUICK_S) == 5


def test_fail_tells_every_rank_the_reason(ranks: Ranks, host: str) -> None:
    ranks.start_all("give_up", 3)
    assert ranks.exit_codes() == {"0": 5, "1": 5, "2": 5}
    for rank in (0, 2):
        failure = ranks.event(str(rank), "on_failure")
        assert (failure["rank"], failure["host"], failure["reason"]) == (1, host, "no room for the buffers")
    # The rank that gave up knows; it is not called back.
    assert [event["event"] for event in ranks.events("1")] == ["error"]


def test_ranks_in_different_calls_are_named(ranks: Ranks) -> None:
    ranks.start_all("out_of_step", 2)
    assert ranks.exit_codes() == {"0": 5, "1": 5}
    message = ranks.event("0", "error")["message"]
    assert re.fullmatch(r"rank 1 on \S+: called MAX_FLOAT64 \(call \d+\), as rank 0 did not", message)


def test_stopped_rank_counts_as_lost_after_the_heartbeat_time_and_not_before(ranks: Ranks) -> None:
    """The heartbeat is answered by a thread of the stopped process, so it stops too."""
    ranks.start_all("block", 2, TEST_HEARTBEAT_S="0.3")
    for rank in range(2):
        ranks.event(str(rank), "joined")
    stopped_s = time.monotonic()
    os.kill(ranks.processes["1"].pid, signal.SIGSTOP)
    failure = ranks.event("0", "on_failure", 10.0)
    assert failure["rank"] == 1
    assert "has not answered for" in failure["reason"]
    assert 1.4 <= failure["at_s"] - stopped_s < 1.8 + QUICK_S


def test_late_rank_is_waited_for(ranks: Ranks) -> None:
    ranks.start("linger", 1, 3)
    ranks.start("linger", 2, 3)
    time.sleep(1.0)
    ranks.start("linger", 0, 3)
    assert set(ranks.exit_codes().values()) == {0}


def test_missing_ranks_are_listed_on_every_rank_that_came(ranks: Ranks) -> None:
    for rank in (0, 2):
        ranks.start("block", rank, 6, BUSBW_CONNECT_TIMEOUT="1.5")
    for rank in (0, 2):
        error = ranks.event(str(rank), "error")
        assert error["message"].endswith("4 of 6 ranks did not arrive within 1.5 s: 1, 3-5")
    assert ranks.exit_codes() == {"0": 5, "2": 5}


def test_rank_lost_before_the_world_is_complete_is_named(ranks: Ranks, host: str) -> None:
    ranks.start("block", 0, 3)
    # Who is killed before its hello was never there: give the next one longer.
    for alive_s in (0.5, 1.0, 2.0, 4.0, 8.0):
        name = ranks.start("block", 1, 3, name=f"alive for {alive_s} s")
        time.sleep(alive_s)
        ranks.processes[name].kill()
        time.sleep(0.3)
        if ranks.events("0"):
            break
    error = ranks.event("0", "error", QUICK_S)
    assert (error["rank"], error["host"]) == (1, host)


def test_wrong_token_cannot_join(ranks: Ranks) -> None:
    port = str(free_port())
    ranks.start("block", 0, 2, BUSBW_ROOT=f"127.0.0.1:{port}", BUSBW_CONNECT_TIMEOUT="3")
    variables = {"BUSBW_ROOT": f"127.0.0.1:{port}", "BUSBW_TOKEN": "another", "BUSBW_CONNECT_TIMEOUT": "1.5"}
    ranks.start("block", 1, 2, **variables)
    stranger = ranks.event("1", "error")
    assert stranger["type"] == "SiteError"
    assert "does not know this job's token" in stranger["message"]
    # Rank 0 goes on waiting for the right one.
    assert "did not arrive" in ranks.event("0", "error")["message"]


def test_two_ranks_with_one_number_are_both_named(ranks: Ranks) -> None:
    ranks.start("block", 0, 3)
    ranks.start("block", 1, 3)
    ranks.start("block", 1, 3, name="twin")
    pids = [str(ranks.processes[name].pid) for name in ("1", "twin")]
    for name in ("0", "1", "twin"):
        error = ranks.event(name, "error")
        assert error["type"] == "LauncherMismatch"
        assert all(pid in error["message"] for pid in pids)
    assert set(ranks.exit_codes().values()) == {4}


def test_ranks_that_believe_in_different_sizes_are_both_named(ranks: Ranks) -> None:
    ranks.start("block", 0, 2)
    ranks.start("block", 1, 4)
    message = ranks.event("0", "error")["message"]
    assert "one of 4" in message
    assert "one of 2" in message
    assert ranks.event("1", "error")["message"] == message


def test_another_version_is_refused_and_both_are_named(ranks: Ranks) -> None:
    ranks.start("block", 0, 2)
    identity = identify(
        {"BUSBW_RANK": "1", "BUSBW_WORLD_SIZE": "2", "BUSBW_ROOT": "127.0.0.1", "BUSBW_TOKEN": ranks.token}
    )
    assert identity is not None
    with zmq.Context() as context:
        connection = sockets.join(context, identity, "rank 1", Timing())
        older = replace(nccl._hello(identity), version="0.0.1")
        connection.socket.send_multipart(pack(Message(Kind.HELLO, to_bytes(older))))
        answer = unpack(connection.socket.recv_multipart())
        connection.close()
    assert answer.kind is Kind.REFUSED
    error = ranks.event("0", "error")
    assert error["type"] == "LauncherMismatch"
    assert error["message"] == answer.body.decode()
    assert "busbw 0.0.1" in error["message"]
    assert f"busbw {__version__}" in error["message"]


def test_another_process_after_the_start_is_turned_away_and_the_world_goes_on(ranks: Ranks) -> None:
    ranks.start_all("block", 2)
    ranks.event("0", "joined")
    ranks.start("block", 1, 2, name="late twin")
    assert "started twice" in ranks.event("late twin", "error")["message"]
    assert [event["event"] for event in ranks.events("0")] == ["joined"]


def test_taken_port_is_passed_over_even_when_its_owner_says_nothing(ranks: Ranks) -> None:
    with socket.create_server(("127.0.0.1", candidate_ports(ranks.token, None)[0])):
        ranks.start_all("linger", 2)
        assert set(ranks.exit_codes().values()) == {0}


def test_taken_port_that_was_asked_for_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        identity = identify(
            {
                "BUSBW_RANK": "0",
                "BUSBW_WORLD_SIZE": "2",
                "BUSBW_ROOT": f"127.0.0.1:{port}",
                "BUSBW_TOKEN": "t",
            }
        )
        assert identity is not None
        with pytest.raises(SiteError, match=f"{port} in use"):
            nccl.connect(identity, lambda failure: None)


def test_loopback_root_listens_on_loopback_only_unless_other_hosts_take_part() -> None:
    alone = {"BUSBW_RANK": "0", "BUSBW_WORLD_SIZE": "2", "BUSBW_LOCAL_SIZE": "2"}
    spread = {**alone, "BUSBW_LOCAL_SIZE": "1", "BUSBW_ROOT": "127.0.0.1"}
    for environ, addresses in ((alone, ["127.0.0.1"]), (spread, ["*"])):
        identity = identify(environ)
        assert identity is not None
        assert sockets._listening_addresses(identity, 2) == addresses


def test_world_without_root_address_or_size_is_refused() -> None:
    for environ, missing in (
        ({"SLURM_PROCID": "0", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2"}, "where rank 0 is"),
        ({"PALS_RANKID": "0"}, "how many ranks"),
    ):
        identity = identify(environ)
        assert identity is not None
        with pytest.raises(LauncherMismatch, match=missing):
            nccl.connect(identity, lambda failure: None)


def test_connect_timeout_must_be_a_time() -> None:
    assert nccl._connect_timeout_s(None) == 60.0
    assert nccl._connect_timeout_s("1.5") == 1.5
    for text in ("soon", "-1", "inf", "nan"):
        with pytest.raises(UsageError):
            nccl._connect_timeout_s(text)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
