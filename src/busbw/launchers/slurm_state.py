"""What Slurm says of a job, read back: its state and reason, and srun's words about a rank that died. Pure.

The wordings are those of Slurm 22.05; later versions say the same.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from busbw.launchers.engine import JobState, Phase

# https://slurm.schedmd.com/squeue.html, "JOB STATE CODES". All others mean that the job has ended.
_PENDING: Final = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
)
_RUNNING: Final = frozenset(
    {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"}
)
CANCELLED: Final = "it was cancelled"
FORGOTTEN: Final = "Slurm does not know the job any more"
NODE_FAILED: Final = "a node failed"
OUT_OF_TIME: Final = "its time limit came"
_ENDINGS: Final[Mapping[str, tuple[str, str]]] = {
    "CANCELLED": (CANCELLED, "ask who or what cancelled it: scancel, a limit or an administrator"),
    "TIMEOUT": (OUT_OF_TIME, "give --time-limit more, or measure less"),
    "DEADLINE": ("its deadline came", ""),
    "NODE_FAIL": (
        NODE_FAILED,
        "look at that node (scontrol show node); what was finished is in the record",
    ),
    "OUT_OF_MEMORY": ("a node's memory limit was reached", "give --sbatch-args='--mem=0', or smaller sizes"),
    "PREEMPTED": ("a job of higher priority took its nodes", "submit it again, or to another --partition"),
    "BOOT_FAIL": ("a node did not boot", "look at that node (scontrol show node)"),
    "REVOKED": ("another cluster took it", ""),
}

# Reasons that waiting alone does not end, with what to do ("JOB REASON CODES" of squeue).
_HOPELESS: Final[Mapping[str, str]] = {
    "AccountNotAllowed": "give --account another account, or --partition another partition",
    "AssocMaxCpuPerJobLimit": "ask for fewer nodes",
    "AssocMaxNodePerJobLimit": "ask for fewer nodes",
    "AssocMaxWallDurationPerJobLimit": "give a shorter --time-limit",
    "BadConstraints": "ask for nodes that exist: `sinfo` shows them",
    "DependencyNeverSatisfied": "take the dependency out of --sbatch-args",
    "InvalidAccount": "give --account an account of yours",
    "InvalidQOS": "give another --qos in --sbatch-args",
    "JobHeldAdmin": "ask the administrator, who holds such jobs, then submit it again",
    "JobHeldUser": "leave --hold out of --sbatch-args and SBATCH_* variables, then submit it again",
    "JobLaunchFailure": "look at slurmd's log on the node",
    "PartitionNodeLimit": "ask for fewer nodes, or give another --partition",
    "PartitionTimeLimit": "give --time-limit what the partition allows",
    "QOSMaxNodePerJobLimit": "ask for fewer nodes",
    "QOSMaxWallDurationPerJobLimit": "give a shorter --time-limit",
    "QOSNotAllowed": "give another --qos in --sbatch-args, or another --partition",
}
# Reasons that may end by themselves, or never.
_WAITING: Final[Mapping[str, str]] = {
    "PartitionDown": "give another --partition, or ask the administrator",
    "PartitionInactive": "give another --partition, or ask the administrator",
    "ReqNodeNotAvail": "give -N fewer nodes; `sinfo -R` tells which are down and why",
    "Reservation": "wait for the reservation, or ask outside it",
    "Nodes_required_for_job_are_DOWN": "give -N fewer nodes; `sinfo -R` tells which are down and why",
}
_REFUSALS: Final = (
    ("invalid partition", "`sinfo` lists the partitions"),
    ("invalid account", "give --account one of yours; `sacctmgr show associations` lists them"),
    ("invalid qos", "give another --qos in --sbatch-args"),
    ("node count specification invalid", "ask for nodes that exist: `sinfo` shows them"),
    ("requested node configuration is not available", "ask for nodes that exist: `sinfo` shows them"),
    ("requested partition configuration not available", "`sinfo` shows nodes and limits of the partitions"),
    ("time limit specification", "write --time-limit as minutes or hours:minutes:seconds"),
    ("invalid --time specification", "write --time-limit as minutes or hours:minutes:seconds"),
    ("requested time limit is invalid", "give --time-limit what the partition allows"),
    ("unable to contact slurm controller", "ask whether slurmctld is up: `scontrol ping`"),
    ("unrecognized option", "leave out what this version of Slurm does not know"),
    ("invalid job id", "`squeue --me` lists your jobs"),
)

# Job names and commands stand on lines of their own, or behind other fields.
_FIELD: Final = re.compile(
    r"^ +(JobState|NodeList|BatchHost|NumNodes|StdOut)=(\S*)(?:.*? (Reason)=(\S*))?"
    r"|^ +(RunTime)=(\S*) (TimeLimit)=(\S*)|^ +Requeue=.* (ExitCode)=(\S*)|^JobId=.*? (JobName)=(.*)$",
    re.MULTILINE,
)
_DURATION: Final = re.compile(r"(?:(\d+)-)?(\d+):(\d+):(\d+)\Z")
_TASK_DIED: Final = re.compile(
    r"^(?:\s*\d+: )?srun: error: (?P<host>\S+): tasks? (?P<tasks>[\d,\[\]-]+): (?P<how>.+?)\s*$", re.MULTILINE
)
# Of scancel or, after the first death, of srun itself.
_TOLD: Final = re.compile(r"error: \*\*\* STEP \S+ ON \S+ CANCELLED AT \S+ \*\*\*")
# Of srun, asked to by a PMIx server: it kills the ranks, and may not have heard yet which one died.
_ABORTED: Final = re.compile(r"srun: Job step aborted: ")
_NODE_FAILED: Final = re.compile(r"Node failure on (\S+?)[.,;]?(?:\s|$)")
_NO_PROGRAM: Final = re.compile(r"error: execve\(\): (.+?): (No such file or directory|Permission denied)")
_NO_PLUGIN: Final = re.compile(r"error: Invalid MPI type '(\S+)'")
# SIGTERM: itself, as a shell tells it, and busbw's own exit code for it.
_TOLD_TO_END: Final = (-15, 143, 130)
# Slurm's number for a task that was killed for its memory, and for all of that node that end after it.
_OUT_OF_MEMORY: Final = 125
# What a rank of Open MPI (5.0, which srun starts over PMIx) leaves with that lost another one.
_LOST_ANOTHER: Final = 14
# Signals that a rank meets by its own fault: SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS.
_FAULTS: Final = (-11, -7, -4, -8, -6, -5, -31)
_SIGNALS: Final[Mapping[str, int]] = {
    "Killed": 9,
    "Terminated": 15,
    "Segmentation fault": 11,
    "Aborted": 6,
    "Bus error": 7,
    "Floating point exception": 8,
    "Illegal instruction": 4,
    "Interrupt": 2,
    "Hangup": 1,
    "User defined signal 1": 10,
    "Trace/breakpoint trap": 5,
    "Bad system call": 31,
    "Out Of Memory": _OUT_OF_MEMORY,
}


@dataclass(frozen=True)
class Task:
    """A task that ended badly, as srun told. ``code`` is negative for a signal."""

    task: int
    host: str
    code: int


@dataclass(frozen=True)
class Reading:
    """One look at a job: ``state`` in Slurm's words, empty where Slurm has forgotten the job. One that
    ``is_late`` has come to its time limit: it runs on until Slurm looks again, and takes no step.
    """

    state: str
    reason: str = ""
    code: int | None = None
    nodes: str = ""
    batch_host: str = ""
    node_count: int = 0
    name: str = ""
    output: str = ""
    is_late: bool = False

    def is_called(self, name: str) -> bool:
        """Whether it is the job that we gave this name. --sbatch-args and a site may change a job's name; it
        is in that of its output, too.
        """
        return self.name == name or name in self.output


def read_job(text: str) -> Reading:
    """The answer of `scontrol show job`."""
    found: dict[str, str] = {}
    for match in _FIELD.finditer(text):
        named = [part or "" for part in match.groups()]
        for name, value in zip(named[::2], named[1::2], strict=True):
            found.setdefault(name, "" if value == "(null)" else value)
    exit_code, _, number = found.get("ExitCode", "").partition(":")
    code = None
    if exit_code.isdigit():
        code = -int(number) if number.isdigit() and int(number) else int(exit_code)
    return Reading(
        state=found.get("JobState", ""),
        reason="" if found.get("Reason") == "None" else found.get("Reason", ""),
        code=code,
        nodes=found.get("NodeList", ""),
        batch_host=found.get("BatchHost", ""),
        node_count=int(found.get("NumNodes", "0").split("-")[0] or 0),
        name=found.get("JobName", ""),
        output=found.get("StdOut", ""),
        is_late=_is_late(found.get("RunTime", ""), found.get("TimeLimit", "")),
    )


def _is_late(ran: str, limit: str) -> bool:
    """From durations such as 1-02:03:04; a limit may be a word."""
    of_both = [_DURATION.match(text) for text in (ran, limit)]
    seconds = [
        sum(int(part or 0) * unit for part, unit in zip(found.groups(), (86400, 3600, 60, 1), strict=True))
        for found in of_both
        if found is not None
    ]
    return len(seconds) == 2 and seconds[0] >= seconds[1]


def job_state(reading: Reading) -> JobState:
    """What it means for a run."""
    if reading.state in _PENDING:
        reason = reading.reason.split(",", maxsplit=1)[0]
        why = reading.reason.replace("_", " ")
        hopeless = reason in _HOPELESS or "held" in reason.lower()
        hint = _HOPELESS.get(reason) or _WAITING.get(reason, "")
        return JobState(Phase.PENDING, why=why, hopeless=hopeless, hint=hint)
    if reading.state in _RUNNING:
        return JobState(Phase.RUNNING)
    if not reading.state:
        return JobState(Phase.ENDED, why=FORGOTTEN)
    why, hint = _ENDINGS.get(reading.state, ("", ""))
    late = reading.state == "TIMEOUT"
    cancelled = reading.state == "CANCELLED"
    return JobState(Phase.ENDED, why=why, hint=hint, code=reading.code, out_of_time=late, cancelled=cancelled)


def hint_of(words: str) -> str:
    """What to try where Slurm refused something."""
    lowered = words.lower()
    return next((hint for known, hint in _REFUSALS if known in lowered), "")


def first_death(lines: Sequence[str], *, is_busbw: bool = True) -> Task | None:
    """The rank that died first, by what srun printed; None where none died, or nobody can tell which.

    Before srun or Slurm begins to end the step, who is told of died by itself. Of busbw's own, a signal tells
    more than a code: ranks leave with one when they lose another. From then on ranks are told to end, and
    those that do not are killed; some crash over it (MPICH 5.0). But a PMIx server that felt a rank's end has
    srun end the step before srun has heard of that rank: there the one that met a fault is it, or the one
    that left with a code (a user's command alone), or the one that was killed.
    """
    aborted = any(_ABORTED.search(line) for line in lines)
    began = (at for at, line in enumerate(lines) if _TOLD.search(line) or _ABORTED.search(line))
    start = next(began, len(lines))
    of_others = (*_TOLD_TO_END, _LOST_ANOTHER) if aborted else _TOLD_TO_END
    before, later = (
        [death for death in _deaths(part) if death.code not in of_others]
        for part in (lines[:start], lines[start:] if aborted else [])
    )
    faults = [death for death in later if death.code in _FAULTS]
    if before and not (is_busbw and len(faults) == 1 and all(death.code > 0 for death in before)):
        return min(before, key=lambda death: is_busbw and death.code > 0)
    codes = [death for death in later if death.code > 0 and not is_busbw]
    killed = [death for death in later if death.code == -signal.SIGKILL]
    likely = faults or codes or killed
    return likely[0] if len(likely) == 1 else None


def _deaths(lines: Sequence[str]) -> list[Task]:
    """Each task that srun told of, in its order."""
    return [
        Task(task, match["host"], code)
        for line in lines
        if (match := _TASK_DIED.match(line)) and (code := _code(match["how"])) is not None
        for task in _tasks(match["tasks"])
    ]


def _tasks(text: str) -> Iterator[int]:
    """Of ``0,3-5``."""
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        yield from range(int(first), int(last or first) + 1)


def _code(how: str) -> int | None:
    if match := re.match(r"Exited with exit code (\d+)", how):
        return int(match[1])
    name = how.removesuffix(" (core dumped)")
    return -_SIGNALS[name] if name in _SIGNALS else None


def describe(code: int) -> str:
    """How a task ended."""
    if code >= 0:
        return f"exit code {code}"
    if code == -_OUT_OF_MEMORY:
        return "killed for its memory"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def missing_plugin(lines: Sequence[str]) -> str:
    """The MPI plugin that srun lists and cannot load; empty where it could."""
    return next((match[1] for line in lines if (match := _NO_PLUGIN.search(line))), "")


def failed_node(lines: Sequence[str]) -> str:
    """The node that srun gave up; empty where none."""
    return next((match[1] for line in lines if (match := _NODE_FAILED.search(line))), "")


def cannot_execute(lines: Sequence[str]) -> tuple[str, str]:
    """The program that a node could not start, and why; empty where all started."""
    for line in lines:
        if match := _NO_PROGRAM.search(line):
            return match[1], match[2]
    return "", ""
