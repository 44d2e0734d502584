"""What Slurm says of a job, read back: its state and reason, and why srun could not start it. Pure.

The wordings are those of Slurm 22.05; later versions say the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from busbw.launch.engine import JobState, Phase
from busbw.launch.slurm.bring import UNSEEN

# https://slurm.schedmd.com/squeue.html, "JOB STATE CODES". All others mean that the job has ended.
_PENDING: Final = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
)
_RUNNING: Final = frozenset(
    {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"}
)
CANCELLED: Final = "it was cancelled"
FORGOTTEN: Final = "Slurm no longer knows the job"
NODE_FAILED: Final = "a node failed"
OUT_OF_TIME: Final = "it reached its time limit"
_ENDINGS: Final[Mapping[str, tuple[str, str]]] = {
    "CANCELLED": (CANCELLED, "find out what cancelled it: scancel, a limit or an administrator"),
    "TIMEOUT": (OUT_OF_TIME, "give --time-limit more, or measure less"),
    "DEADLINE": ("it reached its deadline", ""),
    "NODE_FAIL": (
        NODE_FAILED,
        "look at that node (scontrol show node); what was finished is in the record",
    ),
    "OUT_OF_MEMORY": ("a node's memory limit was reached", "give --sbatch-args='--mem=0', or smaller sizes"),
    "PREEMPTED": ("a job of higher priority took its nodes", "submit it again, or to another --partition"),
    "BOOT_FAIL": ("a node did not boot", "look at that node (scontrol show node)"),
    "REVOKED": ("another cluster took it", ""),
}

_FEWER: Final = "ask for fewer nodes"
_SHORTER: Final = "give a shorter --time-limit"
# Reasons that waiting alone does not end, with what to do ("JOB REASON CODES" of squeue).
_HOPELESS: Final[Mapping[str, str]] = {
    "AccountNotAllowed": "give --account another account, or --partition another partition",
    "AssocMaxCpuPerJobLimit": _FEWER,
    "AssocMaxNodePerJobLimit": _FEWER,
    "AssocMaxWallDurationPerJobLimit": _SHORTER,
    "BadConstraints": "ask for nodes that exist: `sinfo` shows them",
    "DependencyNeverSatisfied": "take the dependency out of --sbatch-args",
    "InvalidAccount": "give --account an account of yours",
    "InvalidQOS": "give another --qos in --sbatch-args",
    "JobHeldAdmin": "ask the administrator, who holds such jobs, then submit it again",
    "JobHeldUser": "leave --hold out of --sbatch-args and SBATCH_* variables, then submit it again",
    "JobLaunchFailure": "look at slurmd's log on the node",
    "PartitionNodeLimit": "ask for fewer nodes, or give another --partition",
    "PartitionTimeLimit": "give --time-limit what the partition allows",
    "QOSMaxNodePerJobLimit": _FEWER,
    "QOSMaxWallDurationPerJobLimit": _SHORTER,
    "QOSNotAllowed": "give another --qos in --sbatch-args, or another --partition",
}
# Reasons that may end by themselves, or never, by their first word.
_WAITING: Final[Mapping[str, str]] = {
    "PartitionDown": "give another --partition, or ask the administrator",
    "PartitionInactive": "give another --partition, or ask the administrator",
    "ReqNodeNotAvail": "give -N fewer nodes; `sinfo -R` shows which are down and why",
}
# Job names and commands stand on lines of their own, or behind other fields.
_FIELD: Final = re.compile(
    r"^ +(JobState|NodeList|NumNodes)=(\S*)(?:.*? (Reason)=(\S*))?"
    r"|^ +Requeue=.* (ExitCode)=(\S*)",
    re.MULTILINE,
)
_NODE_FAILED: Final = re.compile(r"Node failure on (\S+?)[.,;]?(?:\s|$)")
_NO_PROGRAM: Final = re.compile(r"error: execve\(\): (.+?): (No such file or directory|Permission denied)")
_NO_PLUGIN: Final = re.compile(r"error: Invalid MPI type '(\S+)'")


@dataclass(frozen=True)
class Reading:
    """One look at a job: ``state`` in Slurm's words, empty where Slurm has forgotten the job."""

    state: str
    reason: str = ""
    code: int | None = None
    nodes: str = ""
    node_count: int = 0


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
        node_count=int(found.get("NumNodes", "0").split("-")[0] or 0),
    )


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


def failed_node(lines: Sequence[str]) -> str:
    """The node that srun gave up; empty where none."""
    return next((match[1] for line in lines if (match := _NODE_FAILED.search(line))), "")


def cannot_start(lines: Sequence[str]) -> tuple[str, str]:
    """Why srun could not start the ranks, and what to do; empty where it could."""
    for line in lines:
        if match := _NO_PROGRAM.search(line):
            hint = "share that folder with the nodes, or give --python PATH or --image"
            return f"its nodes cannot start {match[1]} ({match[2]})", hint
        if match := _NO_PLUGIN.search(line):
            hint = "ask for libpmix on the nodes, or give another --mpi; --mpi none needs no plugin"
            return f"srun has no working MPI plugin {match[1]}", hint
        if line == UNSEEN:
            why = "--bring: its nodes do not see the run folder"
            return why, "set BUSBW_HOME to a folder that the nodes share"
    return "", ""
