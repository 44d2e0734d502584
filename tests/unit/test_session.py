from __future__ import annotations

from typing import Any

import pytest

from busbw.errors import ExitCode, RankFailed, SiteError
from busbw.launchers.base import Command, LaunchRequest
from busbw.model.event import Event, EventKind, event
from busbw.session import Story, judge
from busbw.worker.lead import error_event

HYDRA = [
    "=" * 80,
    "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
    "=   PID 500 RUNNING AT node7",
    "=   EXIT CODE: 9",
    "=" * 80,
    "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)",
]
OWN = error_event(SiteError("no such device", hint="look", rank=2, host="node7"))
SEEN = error_event(SiteError("rank 2 on node7: the process ended", rank=2, host="node7"), peer_lost=True)


def story(world: str, **fields: object) -> Story:
    commands = tuple(Command(("true",)) for _ in range(1 if world == "mpi" else 3))
    return Story(LaunchRequest("local", world, 3, commands), **fields)  # type: ignore[arg-type]


def end(code: ExitCode) -> Event:
    return event(EventKind.END, exit_code=int(code))


@pytest.mark.parametrize("code", [ExitCode.OK, ExitCode.BAD_VERDICT])
def test_a_run_that_ended_well_has_its_own_code(code: ExitCode) -> None:
    assert judge(story("nccl", end=end(code), exits={0: 0, 1: 0, 2: 0}), "here") == (code, None)


def test_interrupted_whatever_the_ranks_said_on_their_way_out() -> None:
    told = story("nccl", interrupted=True, errors=[SEEN], exits={0: -15})
    assert judge(told, "here") == (ExitCode.INTERRUPTED, None)


def test_what_a_rank_says_of_itself_comes_first() -> None:
    told = story("nccl", errors=[SEEN, OWN], exits={2: -9})
    assert judge(told, "here") == (ExitCode.ENVIRONMENT, OWN)


def test_a_rank_that_reads_from_a_dead_one_is_not_the_cause() -> None:
    words = "MPI call failed: Other MPI error\ncopy_iovs(224).........: process_vm_readv failed (errno 3)"
    said = error_event(RankFailed(words, rank=1, host="here"))
    code, error = judge(story("mpi", errors=[said], connected=True, first_dead=2, exits={0: 5}), "here")
    assert code is ExitCode.RANK_FAILED
    assert error is not None
    assert (error["rank"], error["host"]) == (2, "here")
    for first_dead in (None, 1):
        told = story("mpi", errors=[said], connected=True, first_dead=first_dead, exits={0: 5})
        assert judge(told, "here") == (ExitCode.RANK_FAILED, said)


def test_a_killed_process_is_named_before_those_that_left_for_it() -> None:
    code, error = judge(story("nccl", errors=[SEEN], exits={0: 5, 1: 5, 2: -11}), "here")
    assert code is ExitCode.RANK_FAILED
    assert error is not None
    assert error["message"] == "rank 2 on here was killed by SIGSEGV"
    assert (error["rank"], error["host"]) == (2, "here")


def test_a_process_that_left_with_a_code_is_quoted() -> None:
    code, error = judge(story("nccl", exits={1: 1}, output=["Traceback", "ImportError: no numpy"]), "here")
    assert code is ExitCode.RANK_FAILED
    assert error is not None
    assert error["message"] == "rank 1 on here ended with exit code 1"
    assert error["hint"] == "its last words: ImportError: no numpy"


def test_the_launcher_tells_how_the_first_to_end_was_ended() -> None:
    told = story("mpi", connected=True, hello={500: (1, "node7.example")}, output=HYDRA, first_dead=1)
    _, error = judge(told, "here")
    assert error is not None
    assert error["message"] == "rank 1 on node7.example was killed by SIGKILL"


def test_where_the_launcher_names_one_that_it_killed_itself_what_was_seen_counts() -> None:
    told = story("mpi", hello={500: (0, "node7")}, output=HYDRA, first_dead=2, exits={0: 9})
    _, error = judge(told, "here")
    assert error is not None
    assert error["message"] == "rank 2 on node7 ended first, and the launcher ended the others"


def test_a_rank_that_had_not_started_may_be_the_one() -> None:
    told = story("mpi", hello={500: (0, "node7")}, output=HYDRA, first_dead=0, missing=(1, 2))
    _, error = judge(told, "here")
    assert error is not None
    assert error["message"] == (
        "rank 0 on node7, or one that had not started yet (1, 2),"
        " ended first, and the launcher ended the others"
    )
    assert error["rank"] is None


@pytest.mark.parametrize("hello", [{}, {500: (0, "node7")}])
def test_no_name_where_it_is_not_certain(hello: dict[int, tuple[int, str]]) -> None:
    _, error = judge(story("mpi", hello=hello, output=HYDRA, someone_ended=True), "here")
    assert error is not None
    assert error["message"] == "a rank on node7 was killed by SIGKILL"


def test_a_rank_that_its_launcher_does_not_miss() -> None:
    _, error = judge(story("mpi", first_dead=1), "here")
    assert error is not None
    assert error["message"] == "rank 1 on here ended first, and the launcher ended the others"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            (
                "[mpiexec@h1] match_arg (lib/utils/args.c:166): unrecognized argument bogus",
                "[mpiexec@h1] HYDU_parse_array (lib/utils/args.c:181): argument matching returned error",
            ),
            "its last words: unrecognized argument bogus",
        ),
        (
            ("-" * 60, 'mpirun: Error: unknown option "-bogus"', "-" * 60),
            'mpirun: Error: unknown option "-bogus"',
        ),
        (("ssh: connect to host h2 port 22: Connection refused",), "Connection refused"),
        ((), "look at log/"),
    ],
)
def test_a_launcher_that_gives_up_before_any_rank_says_why(said: tuple[str, ...], words: str) -> None:
    code, error = judge(story("mpi", exits={0: 255}, output=[*said]), "here")
    assert code is ExitCode.ENVIRONMENT
    assert error is not None
    assert error["message"] == "the launch on here ended with exit code 255 before any rank said a word"
    assert words in error["hint"]
    _, error = judge(story("mpi", exits={0: 255}, output=[*said], connected=True), "here")
    assert error is not None
    assert error["exit_code"] == ExitCode.RANK_FAILED


def test_only_others_saw_it() -> None:
    assert judge(story("mpi", errors=[SEEN]), "here") == (ExitCode.ENVIRONMENT, SEEN)


def test_nothing_was_said_at_all() -> None:
    code, error = judge(story("nccl", exits={0: 0, 1: 0, 2: 0}), "here")
    assert code is ExitCode.RANK_FAILED
    assert error is not None
    assert error["message"] == "the ranks ended without a result"


def waiting(rank: int) -> Event:
    said = SiteError("round 2 with c: no end within 30 s", rank=rank, host="abc"[rank])
    return {**error_event(said, peer_lost=True), "waits": True}


PLACES = {0: "a", 1: "b", 2: "c"}


def test_who_says_nothing_while_others_wait_is_what_hangs() -> None:
    told = story("mpi", errors=[waiting(0), waiting(1)], places=PLACES, exits={0: 5}, output=HYDRA)
    code, error = judge(told, "here")
    assert code is ExitCode.RANK_FAILED
    assert error is not None
    assert (error["rank"], error["host"]) == (2, "c")
    assert error["message"].startswith(
        "rank 2 on c said nothing while 2 others waited: rank 0 in round 2 with c"
    )


def test_nobody_is_named_where_all_wait() -> None:
    """Whoever left first, and whatever one of them said of a wait that it gave up."""
    own = error_event(RankFailed("no completion within 30 s", rank=1, host="b"))
    everybody = [waiting(0), waiting(1), waiting(2)]
    for errors in (everybody, [*everybody, own]):
        told = story("mpi", errors=errors, places=PLACES, exits={0: 5}, output=HYDRA, first_dead=0)
        code, error = judge(told, "here")
        assert code is ExitCode.UNDECIDED
        assert error is not None
        assert (error["rank"], error["host"]) == (None, "")
        assert error["message"].startswith("all 3 ranks waited: round 2 with c: no end within 30 s")
        assert error["hint"].startswith("give a smaller -b or a longer --round-timeout")


def test_who_waited_is_not_what_died() -> None:
    """Of three ranks one waits and leaves first: that says nothing of it, and little of the others."""
    for seen in ({"first_dead": 0}, {"exits": {0: 5}}):
        told = story("mpi", errors=[waiting(0)], places=PLACES, **seen)
        code, error = judge(told, "here")
        assert code is ExitCode.RANK_FAILED
        assert error is not None
        assert (error["rank"], error["host"]) == (None, "")
        assert error["message"].startswith("only rank 0 waited: round 2 with c")
    told = story("mpi", errors=[waiting(0)], places=PLACES, output=HYDRA, hello={500: (2, "c")}, first_dead=2)
    _, error = judge(told, "here")
    assert error is not None
    assert error["message"] == "rank 2 on c was killed by SIGKILL"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "no rank had said anything"),
        ({"hello": {1: (0, "a"), 2: (1, "a")}}, "2 ranks had started, and were not ready to measure"),
        ({"connected": True, "hello": {1: (0, "a")}}, "its ranks were connected, and no case had ended"),
        ({"connected": True, "finished": 3}, "3 cases had ended"),
    ],
)
def test_a_launch_that_took_too_long_says_how_far_it_had_come(fields: dict[str, Any], words: str) -> None:
    code, error = judge(story("mpi", out_of_time_s=15.0, **fields), "here")
    assert code is ExitCode.RANK_FAILED
    assert error is not None
    assert error["message"] == f"the launch had not ended after 15 s: {words}"


def test_ranks_that_say_that_they_were_told_to_end_do_not_hide_the_limit() -> None:
    told = story("mpi", out_of_time_s=15.0, end=end(ExitCode.INTERRUPTED), exits={0: -15})
    assert judge(told, "here")[0] is ExitCode.RANK_FAILED
    in_time = story("mpi", out_of_time_s=15.0, end=end(ExitCode.OK))
    assert judge(in_time, "here") == (ExitCode.OK, None)
