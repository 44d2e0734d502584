"""Slurm's words, read back. The texts are those of a real 22.05."""

from __future__ import annotations

import pytest

from busbw.launch.engine import JobState, Phase
from busbw.launch.slurm.commands import UNSEEN, Reading, cannot_start, failed_node, job_state, read_job
from busbw.launch.slurm.follow import with_cause

JOB = """\
JobId=12 JobName=a JobState=X Reason=Y
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   Priority=4294901749 Nice=0 Account=(null) QOS=(null)
   JobState={state} Reason={reason} Dependency=(null)
   Requeue=0 Restarts=0 BatchFlag=1 Reboot=0 ExitCode={code}
   RunTime=00:00:03 TimeLimit=UNLIMITED TimeMin=N/A
   Partition=debug AllocNode:Sid=h5:31337
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList={nodes}
   BatchHost={host}
   NumNodes={count} NumCPUs=16 NumTasks=4 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   Command=/runs/ JobState=Z /request/job.sbatch
   WorkDir=/
   StdOut=/tmp/busbw-x-12.out
"""


def text(state: str, reason: str = "None", code: str = "0:0", **of_nodes: str) -> str:
    known = {"nodes": "h[1-4]", "host": "h1", "count": "4", **of_nodes}
    return JOB.format(state=state, reason=reason, code=code, **known)


def test_a_job_that_runs_and_one_that_slurm_has_forgotten() -> None:
    reading = read_job(text("RUNNING"))
    assert reading == Reading("RUNNING", "", 0, "h[1-4]", 4)
    assert job_state(reading).phase is Phase.RUNNING
    assert job_state(Reading("")).phase is Phase.ENDED


@pytest.mark.parametrize(
    ("reason", "hopeless", "hint"),
    [
        ("Resources", False, ""),
        ("ReqNodeNotAvail,_UnavailableNodes:h3", False, "sinfo -R"),
        ("PartitionNodeLimit", True, "fewer nodes"),
        ("JobHeldUser", True, "leave --hold out"),
        ("launch_failed_requeued_held", True, ""),
    ],
)
def test_a_pending_job_says_why(reason: str, hopeless: bool, hint: str) -> None:
    state = job_state(read_job(text("PENDING", reason, nodes="(null)", host="", count="4-4")))
    assert state.phase is Phase.PENDING
    assert state.why == reason.replace("_", " ")
    assert state.hopeless is hopeless
    assert hint in state.hint


@pytest.mark.parametrize(
    ("state", "code", "why", "number"),
    [
        ("COMPLETED", "0:0", "", 0),
        ("FAILED", "5:0", "", 5),
        ("CANCELLED", "0:15", "it was cancelled", -15),
        ("TIMEOUT", "0:0", "it reached its time limit", 0),
        ("OUT_OF_MEMORY", "0:125", "a node's memory limit was reached", -125),
    ],
)
def test_a_job_that_has_ended(state: str, code: str, why: str, number: int) -> None:
    ended = job_state(read_job(text(state, code=code)))
    assert (ended.phase, ended.why, ended.code) == (Phase.ENDED, why, number)
    assert ended.cancelled == (state == "CANCELLED")


KILLED = ["srun: error: h3: task 2: Killed", "srun: error: h[1,4]: tasks 0,3: Terminated"]


def test_a_lost_node() -> None:
    assert failed_node(["srun: error: Node failure on h3", "srun: error: h3: task 2: Killed"]) == "h3"
    assert failed_node(KILLED) == ""


@pytest.mark.parametrize(
    ("line", "why", "hint"),
    [
        (
            "slurmstepd: error: execve(): /no/such python: No such file or directory",
            "its nodes cannot start /no/such python (No such file or directory)",
            "--python PATH",
        ),
        (
            "srun: error: Invalid MPI type 'pmix', --mpi=list for acceptable types",
            "srun has no working MPI plugin pmix",
            "libpmix",
        ),
        (UNSEEN, "--bring: its nodes do not see the run folder", "BUSBW_HOME"),
    ],
)
def test_ranks_that_could_not_start(line: str, why: str, hint: str) -> None:
    found = cannot_start([*KILLED, line])
    assert found[0] == why
    assert hint in found[1]
    assert cannot_start(KILLED) == ("", "")


@pytest.mark.parametrize(
    ("state", "is_busbw", "expected"),
    [
        # A time limit gives a command no code of its own: that is its tasks', which Slurm ended.
        (
            JobState(Phase.ENDED, "it reached its time limit", code=143, out_of_time=True),
            False,
            ("h1", None, None),
        ),
        (JobState(Phase.ENDED, "it was cancelled", code=143, cancelled=True), False, ("", None, 143)),
        # srun ends with the highest code of all; the first that failed was killed.
        (JobState(Phase.ENDED, code=143), False, ("h3", 2, 137)),
        (JobState(Phase.ENDED, code=143), True, ("h3", 2, 143)),
    ],
)
def test_where_and_why_it_failed(state: JobState, is_busbw: bool, expected: object) -> None:
    # For a limit or a cancellation nobody died by himself.
    lines = [] if state.why else KILLED
    found = with_cause(state, lines, ["h1", "h2", "h3", "h4"], is_busbw=is_busbw)
    assert (found.host, found.rank, found.code) == expected
