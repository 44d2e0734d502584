"""Which ranks a launch that stands still waits for: pages and processes go in, a rank or none comes out."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from busbw_testing.ras_server import answer_of

from busbw.errors import ExitCode, RankFailed
from busbw.launch.observed import Listener, Story
from busbw.launch.stall import State, explain, stalled_event
from busbw.launch.verdict import judge
from busbw.model.event import Event, EventKind, decode, encode, error_event, event, stall_event
from busbw.model.hang import HangAnswer, LinkSeen, ProcessSeen
from busbw.model.plain import from_plain
from busbw.model.progress import CallMode, HostStill, Page, Phase, RankHere

CALL = "all_reduce 64 MiB float"
IN_CALL = {"entered": 1782, "enqueued": 1781, "cpu_s": 30.0, "state": "R"}  # as MPI waits
BEFORE = {"entered": 1781, "enqueued": 1781}
ENQUEUED = {"entered": 1800, "enqueued": 1800, "completed": 1781, "mode": CallMode.WAITS_FOR_STREAM}
IN_BARRIER = {"entered": 1781, "enqueued": 1781, "asked": 8, "answered": 7}
STARTED = dict.fromkeys(range(4), "node7")
OF_PAGE = Page.__dataclass_fields__


def rank(number: int, ranks: int = 4, **seen: Any) -> RankHere:
    """A rank in the timing of ``CALL``, with fields of its page, of its process, and of what was seen."""
    page = Page(number, ranks, 100 + number, phase=Phase.TIMING, visit=7, what=CALL)
    page = replace(page, **{name: value for name, value in seen.items() if name in OF_PAGE})
    process = ProcessSeen(seen.get("state", "S"), waits_in=seen.get("waits_in", ""))
    return RankHere(page, process, seen.get("cpu_s", 1.0), seen.get("is_gone", False))


def host(*ranks: RankHere, name: str = "node7") -> HostStill:
    return HostStill(name, 30.0, ranks)


def of(odd: dict[str, Any], others: dict[str, Any]) -> HangAnswer:
    """Four ranks of which rank 3 is odd."""
    return explain([host(*(rank(number, **others) for number in range(3)), rank(3, **odd))], STARTED)


@pytest.mark.parametrize(
    ("odd", "others", "state"),
    [
        ({**IN_CALL, "is_gone": True}, IN_CALL, State.GONE),
        ({**IN_CALL, "state": "T"}, IN_CALL, State.STOPPED),
        (
            {"phase": Phase.STARTING, "visit": 0, "what": ""},
            {"phase": Phase.JOINING, "what": ""},
            State.NOT_JOINED,
        ),
        (BEFORE, IN_CALL, State.NOT_ENTERED),
        (BEFORE, IN_BARRIER, State.NOT_ENTERED),
        (IN_BARRIER, {**IN_CALL, "asked": 7, "answered": 7}, State.NOT_ENTERED),  # it left one call out
        ({**IN_CALL, "state": "S", "cpu_s": 0.0, "waits_in": "hrtimer_nanosleep"}, IN_CALL, State.ASLEEP),
        (
            {**ENQUEUED, "entered": 1782, "enqueued": 1781, "mode": CallMode.ISSUES},
            ENQUEUED,
            State.NOT_ENQUEUED,
        ),
        ({**IN_CALL, "what": "all_gather 64 MiB float"}, IN_CALL, State.DIFFERENT),
    ],
)
def test_the_rank_that_the_others_wait_for_is_named(
    odd: dict[str, Any], others: dict[str, Any], state: State
) -> None:
    answer = of(odd, others)
    assert answer.is_hung
    assert answer.states[0].state == state
    assert answer.states[0].ranks == (3,)
    assert answer.answer.startswith("rank 3 on node7 (pid 103) ")
    assert "3 others wait in" in answer.answer
    assert all(
        row.state
        not in {state, *map(str, State)} - {"waits", "entered, not returned", "enqueued, not completed"}
        for row in answer.states[1:]
    )


@pytest.mark.parametrize(
    ("everyone", "state"),
    [
        (IN_CALL, State.NOT_RETURNED),
        (ENQUEUED, State.NOT_COMPLETED),
        (IN_BARRIER, State.WAITS),
        ({"phase": Phase.COMMUNICATOR, "what": ""}, State.WAITS),
        ({"phase": Phase.END}, State.WAITS),
    ],
)
def test_nobody_is_named_where_all_wait(everyone: dict[str, Any], state: State) -> None:
    event = stalled_event([host(*(rank(number, **everyone) for number in range(4)))], {})
    assert event["hang"]["states"][0]["state"] == state
    assert event["hang"]["states"][0]["ranks"] == (0, 1, 2, 3)
    assert (event["rank"], event["host"]) == (None, "")
    assert "all 4 ranks" in event["message"]


def test_of_two_ranks_in_different_calls_none_is_named() -> None:
    other = rank(1, 2, **{**IN_CALL, "what": "all_reduce 1 MiB float"})
    found = stalled_event([host(rank(0, 2, **IN_CALL), other)])
    assert (found["rank"], found["host"]) == (None, "")
    assert found["message"] == (
        f"the ranks are in different calls: {CALL} on rank 0, all_reduce 1 MiB float on rank 1"
    )
    assert found["hint"].startswith("all ranks have one plan: compare the versions")


def heard(*events: Event) -> Story:
    listener = Listener(print)
    for item in events:
        whole = decode(encode(item))
        assert whole is not None
        listener.hear(whole)
    return listener.story


def left(number: int, size: str, **seen: Any) -> HostStill:
    seen = {**IN_CALL, "what": f"all_reduce {size} float", **seen}
    return HostStill(f"h{number}", 0.0, (rank(number, 3, **seen),))


def test_who_made_another_call_is_named_where_the_library_ended_a_victim() -> None:
    seen = (left(0, "4 B"), left(1, "4 B", is_gone=True), left(2, "8 B"))
    story = heard(*map(stall_event, seen))
    assert not story.is_wrong
    own = error_event(RankFailed("MPI call failed: Message truncated", rank=1, host="h1"))
    error = judge(replace(story, errors=[own], first_dead=1, exits={0: -9})).error
    assert error is not None
    assert (error["rank"], error["host"]) == (2, "h2")
    assert error["message"] == (
        "rank 2 on h2 (pid 102) is in all_reduce 8 B float, call 1,782;"
        " 2 others wait in all_reduce 4 B float, call 1,782"
    )


@pytest.mark.parametrize(
    "seen",
    [
        (),
        (left(0, "4 B"), left(1, "8 B", is_gone=True)),  # of two, nobody knows
        (left(0, "4 B"), left(1, "4 B", is_gone=True), left(2, "8 B", entered=1781)),  # between two calls
    ],
)
def test_nobody_is_named_where_a_message_was_cut_and_the_pages_do_not_decide(seen: Any) -> None:
    own = error_event(RankFailed("MPI call failed: Message truncated", rank=1, host="h1"))
    error = judge(replace(heard(*map(stall_event, seen)), errors=[own], exits={0: -9})).error
    assert error is not None
    assert (error["rank"], error["host"]) == (None, "")


def test_a_rank_that_ends_in_the_same_call_as_the_others_is_judged_by_its_end() -> None:
    seen = heard(*map(stall_event, (left(0, "4 B"), left(1, "4 B", is_gone=True))))
    error = judge(replace(seen, host="h1", process_is_rank=True, exits={1: -9})).error
    assert error is not None
    assert error["message"] == "rank 1 on h1 was killed by SIGKILL"


def test_who_has_not_heard_that_a_barrier_is_over_is_not_behind() -> None:
    assert of(IN_BARRIER, {**IN_CALL, "asked": 8, "answered": 8}).states[0].state == State.NOT_RETURNED


def test_the_call_that_a_rank_left_out_is_its_own_next_one() -> None:
    others = {**ENQUEUED, "asked": 7, "answered": 7}
    odd = {"entered": 1799, "enqueued": 1799, "completed": 1799, "asked": 8, "answered": 7}
    assert of({**odd, "mode": CallMode.ISSUES}, others).answer == (
        f"rank 3 on node7 (pid 103) has not entered {CALL}, call 1,800;"
        f" 3 others wait in {CALL}, calls 1,782 to 1,800"
    )


def test_most_of_those_that_wait_asleep_are_no_cause() -> None:
    """MPI sleeps in the kernel where ranks outnumber cores: all of them do."""
    asleep = {**IN_CALL, "state": "S", "cpu_s": 0.0, "waits_in": "hrtimer_nanosleep"}
    assert of(IN_CALL, asleep).states[0].state == State.NOT_RETURNED


def test_a_rank_that_never_started_is_named_only_while_the_others_join() -> None:
    joining = [rank(number, phase=Phase.JOINING, what="") for number in range(3)]
    answer = explain([host(*joining)], dict.fromkeys(range(3), "node7"))
    assert answer.answer == "rank 3 never started; 3 others wait in the meeting of all ranks"
    assert explain([host(*joining)], STARTED).states[0].state == State.UNSEEN
    assert explain([host(*joining)], None).states[0].state == State.UNSEEN
    measuring = [rank(number, **IN_CALL) for number in range(3)]
    found = stalled_event([host(*measuring)], {3: "node8"})
    assert found["message"].startswith("nothing is heard of rank 3 on node8; 3 others wait in all_reduce")
    assert found["hang"]["states"][0]["state"] == State.UNSEEN
    assert found["rank"] is None


def test_ranks_of_several_hosts_are_one_launch() -> None:
    hosts = [
        host(rank(0, **IN_CALL), rank(1, **IN_CALL)),
        host(rank(2, **BEFORE), rank(3, **IN_CALL), name="node8"),
    ]
    found = stalled_event(hosts, {})
    assert (found["rank"], found["host"]) == (2, "node8")
    assert found["message"] == (
        "rank 2 on node8 (pid 102) has not entered all_reduce 64 MiB float, call 1,782; 3 others wait in it"
    )


def test_what_a_watcher_reports_is_judged_before_what_ranks_did_then() -> None:
    still = host(
        *(rank(number, 2, **(IN_CALL if number else {**IN_CALL, "state": "T"})) for number in range(2))
    )
    story = heard(stall_event(still))
    assert story.all_still
    verdict = judge(replace(story, exits={0: 5, 1: -9}, someone_ended=True, first_dead=1))
    assert verdict.code is ExitCode.RANK_FAILED
    assert verdict.error is not None
    assert verdict.error["rank"] == 0
    assert from_plain(HangAnswer, json.loads(json.dumps(verdict.error["hang"]))) == explain([still], {})
    assert asdict(from_plain(HostStill, json.loads(json.dumps(asdict(still))))) == asdict(still)


def test_hosts_that_have_not_reported_are_waited_for_and_those_that_never_started_are_not() -> None:
    """Process ids of several hosts may be alike."""
    hello = [event(EventKind.HELLO, rank=number, pid=7, host=f"h{number}") for number in range(3)]
    first, second = host(rank(0, **IN_CALL), rank(1, **IN_CALL)), host(rank(2, **IN_CALL), name="h2")
    assert not heard(*hello, stall_event(first)).all_still
    assert heard(*hello, stall_event(first), stall_event(second)).all_still


def test_a_network_that_gives_no_answer_is_named_and_no_rank_is() -> None:
    cut = rank(1, 2, **IN_CALL)
    cut = replace(cut, process=replace(cut.process, unanswered=("10.77.0.2",), stack=("step (a.py:3)",)))
    links = (LinkSeen("lo", (9, 9)), LinkSeen("eth1", (188, 0)), LinkSeen("eth0", (0, 0), {"rx_dropped": 4}))
    still = HostStill("h3", 3.0, (cut,), links, ("NVRM: Xid 79",))
    alone = stalled_event([still], {0: "h9", 1: "h3"})
    assert "gets no answer; nothing is heard of rank 0 on h9; 1 rank waits in" in alone["message"]
    error = stalled_event([host(rank(0, 2, **IN_CALL)), still])
    assert error["rank"] is None
    assert error["message"].startswith(
        "the network: h3 sends to 10.77.0.2 and gets no answer; 2 ranks wait in"
    )
    evidence = "\n".join(error["hang"]["evidence"])
    assert "h3 within 1 s: eth0 nothing, eth1 sent 188 B, received 0 B" in evidence
    assert "h3 counted within 1 s: eth0 rx_dropped 4" in evidence
    assert "h3's kernel log: NVRM: Xid 79" in evidence
    assert asdict(from_plain(HostStill, json.loads(json.dumps(asdict(still))))) == asdict(still)


def test_nccls_own_words_stand_beside() -> None:
    still = replace(
        host(rank(0, 2, **IN_CALL), rank(1, 2, **BEFORE)), ras=("", answer_of("skip", 7).decode())
    )
    (line,) = (line for line in explain([still], STARTED).evidence if "RAS" in line)
    assert line.startswith("NCCL 2.28.9's RAS: rank 1 (pid 7 on 127.0.0.1) has not entered AllReduce 301")


def test_ranks_that_left_beside_a_stopped_one_are_not_named() -> None:
    answer = of({**BEFORE, "state": "T"}, {**IN_BARRIER, "is_gone": True})
    assert answer.answer.startswith("rank 3 on node7 (pid 103) has not entered")
    assert answer.answer.endswith("its process is stopped")
