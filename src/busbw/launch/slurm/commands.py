"""What is asked of Slurm, and told to it, by its own commands."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from busbw.errors import SiteError
from busbw.launch.scheduler import ask, call, hint_of, own_words
from busbw.launch.settle import split_words
from busbw.launch.slurm.state import Reading, read_job
from busbw.launch.slurm.words import value_of
from busbw.rank.world.slurm_text import expand_hosts

if TYPE_CHECKING:
    from busbw.plan.flags.launch import LaunchSettings

_FORGOTTEN: Final = "invalid job id"
# Of a job or step that has ended (scancel, squeue).
_OVER: Final = (_FORGOTTEN, "already completing", "already completed")
# Of a step that its nodes do not have yet, or no longer (scancel); how long that may last.
_STARTING: Final = "not running"
_STARTS_SECONDS: Final = 15.0
_AGAIN_SECONDS: Final = 0.5
# A line for each group of nodes alike (`scontrol show job --details`); and all of a job's, in its TRES.
_ALLOCATED: Final = re.compile(r"^ +Nodes=\S+ .*?GRES=(\S*)", re.MULTILINE)
_TRES: Final = re.compile(r"^ +(?:Alloc)?TRES=.*?\bgres/gpu=(\d+)", re.MULTILINE)


def look(job_id: str) -> Reading:
    """The job as the controller knows it now. Raises SiteError where the controller does not answer."""
    done = ask(("scontrol", "show", "job", job_id))
    if done.returncode == 0:
        return read_job(done.stdout)
    if _FORGOTTEN in (done.stderr + done.stdout).lower():
        return Reading("")
    words = own_words(done.stderr.strip().splitlines())
    raise SiteError(f"scontrol: {words}", hint=hint_of(words, "scontrol"))


def find(name: str) -> str:
    """The number of our newest job that Slurm shows by this name; empty where it has none. Raises SiteError
    where Slurm does not answer.
    """
    words = ("--noheader", "--states=all", "--format=%i", f"--user={os.getuid()}", f"--name={name}")
    return next(reversed(call("squeue", *words).split()), "")


def end(*words: str) -> None:
    """Scancel. No error where there is nothing left to end; raises SiteError where Slurm did not take it."""
    _unless_over(ask(("scancel", *words)))


def end_step(signal: str, step: str) -> None:
    """As end, of a step that may still be starting on its nodes: Slurm then knows of it, and they do not."""
    give_up_s = time.monotonic() + _STARTS_SECONDS
    while True:
        try:
            return end(signal, step)
        except SiteError as error:
            if _STARTING not in error.message or time.monotonic() > give_up_s:
                raise
        time.sleep(_AGAIN_SECONDS)


def _unless_over(done: subprocess.CompletedProcess[str]) -> None:
    """Raises SiteError for a command that failed, but not because its job has ended."""
    said = done.stderr.strip().splitlines()
    left = [line for line in said if not any(known in line.lower() for known in _OVER)]
    if done.returncode and (left or not said):
        words = own_words(left) or f"exit code {done.returncode}"
        raise SiteError(f"{done.args[0]}: {words}", hint=hint_of(words, done.args[0]))


def steps(job_id: str, name: str) -> list[str]:
    """Ids of the job's steps of that name, such as 17.0. Raises SiteError where Slurm does not answer."""
    done = ask(("squeue", "--noheader", "--steps", f"--jobs={job_id}", "--format=%i|%j"))
    _unless_over(done)
    rows = (line.strip().partition("|") for line in done.stdout.splitlines())
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
    return {
        "partition": value_of(words, "--partition", "-p")
        or launch.partition
        or environ.get("SBATCH_PARTITION", ""),
        "account": value_of(words, "--account", "-A") or launch.account or environ.get("SBATCH_ACCOUNT", ""),
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
