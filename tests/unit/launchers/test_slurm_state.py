"""Slurm's words, read back. The texts are those of a real 22.05."""

from __future__ import annotations

import pytest

from busbw.launchers.engine import Phase
from busbw.launchers.slurm_state import (
    Reading,
    Task,
    cannot_execute,
    describe,
    failed_node,
    first_death,
    hint_of,
    job_state,
    missing_plugin,
    read_job,
)

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


def text(
    state: str,
    reason: str = "None",
    code: str = "0:0",
    nodes: str = "h[1-4]",
    host: str = "h1",
    count: str = "4",
) -> str:
    return JOB.format(state=state, reason=reason, code=code, nodes=nodes, host=host, count=count)


def test_a_running_job() -> None:
    reading = read_job(text("RUNNING"))
    assert reading == Reading(
        "RUNNING", "", 0, "h[1-4]", "h1", 4, "a JobState=X Reason=Y", "/tmp/busbw-x-12.out"
    )
    assert job_state(reading).phase is Phase.RUNNING


@pytest.mark.parametrize(
    ("ran", "limit", "is_late"),
    [
        ("00:00:59", "00:01:00", False),
        ("00:01:00", "00:01:00", True),
        ("1-00:00:01", "1-00:00:00", True),
        ("23:59:59", "1-00:00:00", False),
        ("00:00:00", "Partition_Limit", False),
    ],
)
def test_a_job_that_runs_beyond_its_limit(ran: str, limit: str, is_late: bool) -> None:
    """Slurm looks every 30 s, and gives such a job no step any more."""
    told = text("RUNNING").replace("=00:00:03", f"={ran}").replace("=UNLIMITED", f"={limit}")
    assert read_job(told).is_late is is_late


@pytest.mark.parametrize(
    ("reason", "hopeless", "hint"),
    [
        ("Resources", False, ""),
        ("Priority", False, ""),
        ("PartitionDown", False, "--partition"),
        ("ReqNodeNotAvail,_UnavailableNodes:h3", False, "sinfo -R"),
        ("PartitionNodeLimit", True, "fewer nodes"),
        ("InvalidAccount", True, "--account"),
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
        ("TIMEOUT", "0:0", "its time limit came", 0),
        ("NODE_FAIL", "1:0", "a node failed", 1),
        ("OUT_OF_MEMORY", "0:125", "a node's memory limit was reached", -125),
    ],
)
def test_a_job_that_has_ended(state: str, code: str, why: str, number: int) -> None:
    ended = job_state(read_job(text(state, code=code)))
    assert (ended.phase, ended.why, ended.code) == (Phase.ENDED, why, number)
    assert ended.cancelled == (state == "CANCELLED")


def test_a_job_that_slurm_has_forgotten() -> None:
    assert job_state(Reading("")).phase is Phase.ENDED


KILLED = """\
srun: error: h3: task 2: Killed
srun: launch/slurm: _step_signal: Terminating StepId=9.0
slurmstepd: error: *** STEP 9.0 ON h1 CANCELLED AT 2026-11-22T00:49:33 ***
srun: error: h2: task 1: Exited with exit code 5
srun: error: h[1,4]: tasks 0,3: Terminated
""".splitlines()


# A rank of MPICH that was killed, and what became of the others.
CRASHED_FOR_IT = """\
srun: error: h3: task 2: Killed
srun: launch/slurm: _step_signal: Terminating StepId=77.0
srun: error: h2: task 1: Segmentation fault
0: slurmstepd-h1: error: *** STEP 77.0 ON h1 CANCELLED AT 2026-11-27T03:25:14 ***
srun: error: h1: task 0: Segmentation fault
srun: error: h4: task 3: Exited with exit code 130
""".splitlines()

# A rank of Open MPI that crashed: of those that srun killed for it, it may hear first.
CRASHED = """\
srun: Job step aborted: Waiting up to 22 seconds for job step to finish.
srun: error: h2: task 1: Killed
srun: launch/slurm: _step_signal: Terminating StepId=22.0
srun: error: h4: task 3: Killed
srun: error: h1: task 0: Segmentation fault
srun: error: h3: task 2: Terminated
""".splitlines()


@pytest.mark.parametrize(
    ("lines", "task"),
    [
        (KILLED, Task(2, "h3", -9)),
        (CRASHED_FOR_IT, Task(2, "h3", -9)),
        (CRASHED, Task(0, "h1", -11)),
        (CRASHED[:1] + KILLED[2:3] + CRASHED[-2:], Task(0, "h1", -11)),
        (CRASHED[:4], None),
        (CRASHED[:2], Task(1, "h2", -9)),
        ([CRASHED[0], "srun: error: h1: tasks 0-3: Killed"], None),
        (["srun: error: h1: task 0: Out Of Memory", *CRASHED[:2]], Task(0, "h1", -125)),
        (["srun: error: h2: task 1: Exited with exit code 5", *CRASHED[::4]], Task(0, "h1", -11)),
        (["srun: error: h2: task 1: Exited with exit code 3", *CRASHED_FOR_IT[3:]], Task(1, "h2", 3)),
        (CRASHED_FOR_IT[3:], None),
        ([*CRASHED, "srun: error: h3: task 2: Aborted"], None),
        (KILLED[3:] + KILLED[:1], Task(2, "h3", -9)),
        (KILLED[2:3] + KILLED[:1], None),
        (KILLED[3:], Task(1, "h2", 5)),
        (["srun: error: h1: tasks 0-7: Exited with exit code 4"], Task(0, "h1", 4)),
        (["srun: error: h2: task 9: Segmentation fault (core dumped)"], Task(9, "h2", -11)),
        (["some: srun: error: h2: task 9: Killed"], None),
        ([], None),
    ],
)
def test_the_rank_that_died_first(lines: list[str], task: Task | None) -> None:
    assert first_death(lines) == task


def test_a_lost_node() -> None:
    assert failed_node(["srun: error: Node failure on h3", "srun: error: h3: task 2: Killed"]) == "h3"
    assert failed_node(KILLED) == ""


def test_a_program_that_is_not_there() -> None:
    line = "slurmstepd: error: execve(): /no/such python: No such file or directory"
    assert cannot_execute([line]) == ("/no/such python", "No such file or directory")
    assert cannot_execute(KILLED) == ("", "")


def test_a_plugin_that_cannot_be_loaded() -> None:
    assert missing_plugin(["srun: error: Invalid MPI type 'pmix', --mpi=list for acceptable types"]) == "pmix"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (3, "exit code 3"),
        (-9, "killed by SIGKILL"),
        (-125, "killed for its memory"),
        (-99, "killed by signal 99"),
    ],
)
def test_how_a_task_ended(code: int, words: str) -> None:
    assert describe(code) == words


def test_what_sbatch_refuses_comes_with_a_hint() -> None:
    words = "sbatch: error: invalid partition specified: nope"
    assert "sinfo" in hint_of(words)
    assert "minutes" in hint_of("Invalid --time specification")
    assert hint_of("something new") == ""


def test_the_first_task_that_failed_of_a_users_command() -> None:
    lines = (
        "srun: error: h3: task 2: Exited with exit code 9",
        "srun: error: h1: task 0: Killed",
        "slurmstepd: error: *** STEP 5.0 ON h1 CANCELLED AT 2026-11-22T10:00:00 ***",
        "srun: error: h2: task 1: Exited with exit code 143",
    )
    assert first_death(lines) == Task(0, "h1", -9)
    assert first_death(lines, is_busbw=False) == Task(2, "h3", 9)
    assert first_death(lines[2:], is_busbw=False) is None
    assert first_death(CRASHED, is_busbw=False) == Task(0, "h1", -11)
    # A rank of Open MPI that called MPI_Abort: it may be told of last.
    aborted = [*CRASHED[:4], "srun: error: h1: task 0: Exited with exit code 7", CRASHED[5]]
    assert first_death(aborted, is_busbw=False) == Task(0, "h1", 7)
    # One that called abort() and one that lost it.
    survivor = "srun: error: h4: task 3: Exited with exit code 14"
    lines = [survivor, "srun: error: h2: task 1: Aborted", CRASHED[0], "srun: error: h3: task 2: Killed"]
    assert first_death(lines, is_busbw=False) == Task(1, "h2", -6)
    assert first_death([survivor, CRASHED[0], *CRASHED[3:4], CRASHED[1]], is_busbw=False) is None
