"""Slurm's own commands: the words that users give for them, what is asked of them and told to them, and what
their answers mean for a run.

The wordings are those of Slurm 22.05; later versions say the same.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from busbw.errors import SiteError, UsageError
from busbw.launch.engine import JobState, Phase
from busbw.launch.scheduler import ask, call
from busbw.launch.settle import split_words
from busbw.rank.world.slurm_text import expand_hosts

if TYPE_CHECKING:
    from busbw.plan.flags.launch import LaunchSettings

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


# What a job script with --bring says where it does not see the run folder.
UNSEEN: Final = "busbw: --bring: this node does not see the run folder"
# Of a job or step that has ended, or is forgotten (scontrol, scancel, squeue).
_OVER: Final = re.compile("invalid job id|already completing|already completed", re.IGNORECASE)
# Of a step that its nodes do not have yet, or no longer (scancel).
_STARTING: Final = "not running"
_AGAIN_SECONDS: Final = 0.5
# A line for each group of nodes alike (`scontrol show job --details`); and all of a job's, in its TRES.
_ALLOCATED: Final = re.compile(r"^ +Nodes=\S+ .*?GRES=(\S*)", re.MULTILINE)
_TRES: Final = re.compile(r"^ +(?:Alloc)?TRES=.*?\bgres/gpu=(\d+)", re.MULTILINE)


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


# ---- words that users give for sbatch and srun themselves (--sbatch-args, --srun-args) ------------------

_OUTPUT: Final = "leave it out: output is kept in log/ of the run folder"
# What busbw has to decide itself, with what to do instead; short forms beside the long ones.
_OURS: Final[Mapping[str, Mapping[str, str]]] = {
    "--sbatch-args": {
        "--output -o": _OUTPUT,
        "--error -e": _OUTPUT,
        "--array -a": "give -N several node counts, as 2,4,8, for a job each",
        "--wait -W": "leave it out: busbw waits for the job, unless --detach is given",
    },
    "--srun-args": {"--output -o": _OUTPUT, "--error -e": _OUTPUT},
}


def own_words(flag: str, text: str) -> list[str]:
    """As split_words. Raises UsageError also for what would lose a job, its output or its variables."""
    words = split_words(flag, text)
    for names, hint in _OURS[flag].items():
        if found := next((word for word in words if _is_option(word, *names.split())), ""):
            raise UsageError(f"busbw sets {flag} {found} itself", hint=hint)
    exported = value_of(words, "--export", "")
    if flag == "--srun-args" and exported and "ALL" not in exported.split(","):
        raise UsageError(
            f"{flag} --export={exported} hides variables that the ranks need",
            hint="leave it out, or begin it with ALL; --sbatch-args --export=NONE keeps the shell's away",
        )
    return words


def _is_option(word: str, long: str, short: str = "") -> bool:
    """Whether a word is this option, with or without its value. (Options that are put together or cut short,
    as -Qo or --outp, are not looked for.)
    """
    if word.startswith("--"):
        return word.partition("=")[0] == long
    return bool(short) and word.startswith(short)


def value_of(words: Sequence[str], long: str, short: str) -> str:
    """What an option is set to, in one word or two; of several the last; empty where it is not there."""
    found = ""
    for word, following in zip(words, [*words[1:], ""], strict=False):
        if _is_option(word, long, short):
            joined = word.partition("=")[2] if word.startswith("--") else word.removeprefix(short)
            found = joined or following
    return found


# ---- what is asked and told ----------------------------------------------------------------------------


def look(job_id: str) -> Reading:
    """The job as the controller knows it now. Raises SiteError where the controller does not answer."""
    return read_job(call("scontrol", "show", "job", job_id, over=_OVER))


def find(name: str) -> str:
    """The number of our newest job that Slurm shows by this name; empty where it has none. Raises SiteError
    where Slurm does not answer.
    """
    words = ("--noheader", "--states=all", "--format=%i", f"--user={os.getuid()}", f"--name={name}")
    return next(reversed(call("squeue", *words).split()), "")


def end(*words: str, starts_s: float = 0.0) -> None:
    """Scancel. No error where there is nothing left to end; raises SiteError where Slurm did not take it.
    ``starts_s``: how long it may be starting, so that Slurm knows of it, and its nodes do not.
    """
    give_up_s = time.monotonic() + starts_s
    while True:
        try:
            call("scancel", *words, over=_OVER)
            return
        except SiteError as error:
            if _STARTING not in error.message or time.monotonic() >= give_up_s:
                raise
        time.sleep(_AGAIN_SECONDS)


def steps(job_id: str, name: str) -> list[str]:
    """Ids of the job's steps of that name, such as 17.0. Raises SiteError where Slurm does not answer."""
    text = call("squeue", "--noheader", "--steps", f"--jobs={job_id}", "--format=%i|%j", over=_OVER)
    rows = (line.strip().partition("|") for line in text.splitlines())
    return [step for step, _, called in rows if called == name]


def accounted_nodes(job_id: str) -> tuple[str, ...]:
    """The hosts of a job that the controller has forgotten, from Slurm's accounting, where there is one."""
    words = ("--noheader", "--parsable2", "--allocations", "--duplicates", f"--jobs={job_id}")
    try:
        nodes = call("sacct", *words, "--format=NodeList").strip().rpartition("\n")[2]
        return expand_hosts(nodes) if "assigned" not in nodes else ()
    except SiteError:
        return ()


def is_down(node: str) -> bool:
    """Whether Slurm has given a node up."""
    done = ask(("sinfo", "--noheader", "--Node", f"--nodes={node}", "--format=%T"))
    return done.returncode == 0 and "down" in done.stdout


# ---- where a job will run, and how many GPUs its nodes have --------------------------------------------


def chosen(launch: LaunchSettings, environ: Mapping[str, str]) -> Mapping[str, str]:
    """The partition and account that sbatch would take: of its words the last, then the shell's; empty where
    none is said. Raises UsageError.
    """
    words = split_words("--sbatch-args", launch.sbatch_args)
    said = {"partition": ("-p", launch.partition), "account": ("-A", launch.account)}
    return {
        name: value_of(words, f"--{name}", short) or given or environ.get(f"SBATCH_{name.upper()}", "")
        for name, (short, given) in said.items()
    }


def asked(partition: str) -> Mapping[str, str]:
    """Facts of a partition (a list of them, or the default one where empty): ``partition``, its name,
    ``gpus``, the most that a node of it has, and ``gpu_partitions``, those that have some. Raises SiteError
    where Slurm does not answer.
    """
    text = call("sinfo", "--noheader", "--all", "--format=%P|%G")
    rows = [line.strip().partition("|") for line in text.splitlines() if "|" in line]
    default = next((name.rstrip("*") for name, _, _ in rows if name.endswith("*")), "")
    most: dict[str, int] = {}
    for name, _, resources in rows:
        most[name.rstrip("*")] = max(most.get(name.rstrip("*"), 0), _gpus(resources))
    # Without a default one sbatch refuses the job; then it does not matter which is looked at.
    own = [most[name] for name in (partition or default).split(",") if name in most]
    own = own if partition or own else [*most.values()]
    having = [name for name, gpus in most.items() if gpus]
    return {
        "partition": partition or default,
        "gpus": str(max(own, default=0)),
        "gpu_partitions": ", ".join(having),
    }


def read_allocated(text: str, nodes: int) -> int:
    """The fewest GPUs that a job has on any of its nodes, by `scontrol show job --details`."""
    if groups := _ALLOCATED.findall(text):
        return min(_gpus(group) for group in groups)
    total = _TRES.search(text)
    return int(total[1]) // max(nodes, 1) if total is not None else 0


def _gpus(resources: str) -> int:
    """Of generic resources as Slurm writes them: ``gpu:h100:4(S:0),gpu:2(IDX:0-1),nvme:1``."""
    parts = re.sub(r"\([^)]*\)", "", resources).split(",")
    counts: Sequence[str] = [part.split(":")[-1] for part in parts if part.split(":")[0] == "gpu"]
    return sum(int(count) for count in counts if count.isdecimal())
