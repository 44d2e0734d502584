"""How the end of a job is judged, from what its launcher left."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from busbw.errors import ExitCode, RankFailed
from busbw.job_judge import judge
from busbw.job_session import Following, start_following
from busbw.launchers.engine import Handle, JobState, Phase
from busbw.model.event import EventKind, event
from busbw.worker.lead import error_event

# What was left of a run whose rank 1 on h3 was killed: mpirun of Open MPI 5.0.11 blames a survivor, and
# rank 0's guard says what it saw.
WORDS = (
    "[h1:00163] plm:ssh: Warning: setpgid(168,168) failed in parent with errno=Permission denied(13)",
    "[h2:00000] *** An error occurred in Socket closed",
    "[h2:00000] ***    and MPI will try to terminate your MPI job as well)",
    " error: a rank ended, and the launcher ended the others; the first to end on h2 was rank 0",
    "hint: the launcher's own message tells how it ended; finished cases are in the record",
    "# record   /home/runs/20261122-121210-all_reduce-d1ba",
    "-" * 74,
    "prterun has exited due to process rank 0 with PID 0 on node h2 calling",
    '"abort". This may have caused other processes in the application to be',
)


@pytest.fixture
def following(tmp_path: Path) -> Following:
    """A job on hosts whose launcher ended so."""
    found = start_following(Handle("hosts", "busbw-1", "busbw-1"), tmp_path, print, io.StringIO())
    seen = event(
        EventKind.ERROR, message="a rank ended", hint="", rank=None, host="h2", exit_code=5, peer_lost=True
    )
    found.story.connected = True
    found.story.errors.append(seen)
    found.story.output.extend(WORDS)
    found.story.exits[0] = 14
    return found


def test_no_host_is_blamed_that_nobody_named(following: Following) -> None:
    following.state = JobState(Phase.ENDED, code=14)
    code, error = judge(following)
    assert code is ExitCode.RANK_FAILED
    assert error is not None
    assert error["message"] == "the launch ended with exit code 14"
    assert (error["rank"], error["host"]) == (None, "")
    assert error["hint"] == "look at log/ in the run folder, and for its host's OOM killer"


def test_the_rank_that_the_engine_saw_end_is_named(following: Following) -> None:
    why = "rank 1 on h3 ended first, and the launcher ended the others"
    following.state = JobState(Phase.ENDED, why, hint="look at log/", code=14, rank=1, host="h3")
    _, error = judge(following)
    assert error is not None
    assert (error["message"], error["rank"], error["host"], error["hint"]) == (why, 1, "h3", "look at log/")


def test_who_leaves_a_round_that_does_not_end_is_not_what_failed(following: Following) -> None:
    """The engine sees ranks end that waited, and one of them first."""
    places = {0: "h1", 1: "h2", 2: "h3"}
    said = [
        event(EventKind.ERROR, message="round 1", hint="", rank=rank, host=host, exit_code=5, peer_lost=True)
        for rank, host in places.items()
    ]
    following.story.places = places
    why = "rank 1 on h2 ended first, and the launcher ended the others"
    following.state = JobState(Phase.ENDED, why, code=5, rank=1, host="h2")
    following.story.errors[:] = [{**item, "waits": True} for item in said]
    code, error = judge(following)
    assert (code, error["host"] if error else None) == (ExitCode.UNDECIDED, "")
    del following.story.errors[2]
    code, error = judge(following)
    assert (code, error["host"] if error else None) == (ExitCode.RANK_FAILED, "h3")


@pytest.mark.parametrize("is_first_gone", [False, True])
def test_a_time_limit_is_told_where_the_ranks_only_know_that_they_were_ended(
    following: Following, is_first_gone: bool
) -> None:
    """They are ended one by one: who is ended last may have seen another go."""
    following.story.errors.clear()
    if is_first_gone:
        gone = RankFailed("rank 1 on h1: the connection ended without a farewell", rank=1, host="h1")
        following.story.errors.append(error_event(gone, peer_lost=True))
        following.story.end = event(EventKind.END, exit_code=5, status="failed")
    else:
        following.story.end = event(EventKind.END, exit_code=130, status="interrupted")
    why = "DeadlineExceeded: Job was active longer than specified deadline"
    hint = "give --time-limit more"
    following.state = JobState(Phase.ENDED, why, hint=hint, out_of_time=True)
    code, error = judge(following)
    assert code is ExitCode.RANK_FAILED
    assert error is not None
    assert (error["message"], error["hint"]) == (f"job busbw-1 ended: {why}", hint)


def test_a_command_that_was_cancelled_elsewhere_was_interrupted(following: Following) -> None:
    following.is_command = True
    following.story.errors.clear()
    following.state = JobState(Phase.ENDED, "it was cancelled", code=143, cancelled=True)
    assert judge(following) == (ExitCode.INTERRUPTED, None)
    following.state = JobState(Phase.ENDED, code=143)  # its own code
    assert judge(following)[0] is ExitCode.RANK_FAILED
    following.state = JobState(Phase.ENDED, code=0, cancelled=True)  # it was through
    assert judge(following) == (ExitCode.OK, None)


def test_ranks_that_a_cancel_elsewhere_killed_did_not_fail(following: Following) -> None:
    """Killed before they had said a word, while the launcher told of each."""
    following.story.connected = False
    following.story.errors.clear()
    following.story.output[:] = ["srun: error: h1: task 0: Terminated"]
    following.story.exits[0] = 143
    following.state = JobState(Phase.ENDED, "it was cancelled", code=143, cancelled=True)
    assert judge(following) == (ExitCode.INTERRUPTED, None)
    following.state = JobState(Phase.ENDED, "", code=143)
    assert judge(following)[0] is ExitCode.RANK_FAILED


def test_ranks_that_were_through_before_a_cancel_elsewhere_are(following: Following) -> None:
    following.story.errors.clear()
    following.story.output.clear()
    following.story.exits[0] = 0
    following.story.end = event(EventKind.END, exit_code=1, status="complete")
    following.state = JobState(Phase.ENDED, "it was cancelled", cancelled=True)
    assert judge(following) == (ExitCode.BAD_VERDICT, None)


def test_a_setup_script_that_failed_is_named(following: Following) -> None:
    """The ranks, or the command, never started there."""
    following.story.connected = False
    following.story.errors.clear()
    following.story.output.append("busbw: the setup script ended with exit code 7 on h3")
    following.state = JobState(Phase.ENDED, code=7, rank=2, host="h3")
    for following.is_command in (False, True):
        code, error = judge(following)
        assert code is ExitCode.ENVIRONMENT
        assert error is not None
        assert error["message"] == "the setup script ended with exit code 7 on h3"
