"""Where a job on Slurm will run, and how many GPUs its nodes have: asked of sinfo, or of an allocation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from busbw.launchers import slurm_commands as commands
from busbw.launchers.slurm_words import split_words, value_of

if TYPE_CHECKING:
    from busbw.settings.launch import LaunchSettings

# A line for each group of nodes alike (`scontrol show job --details`); and all of a job's, in its TRES.
_ALLOCATED: Final = re.compile(r"^ +Nodes=\S+ .*?GRES=(\S*)", re.MULTILINE)
_TRES: Final = re.compile(r"^ +(?:Alloc)?TRES=.*?\bgres/gpu=(\d+)", re.MULTILINE)


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
    """Facts of a partition (a list of them, or the default one where empty): ``partition``, its name, and
    ``gpus``, the most that a node of it has. Raises SiteError where Slurm does not answer.
    """
    words = (f"--partition={partition}",) if partition else ()
    text = commands.call("sinfo", "--noheader", "--format=%P|%G", *words)
    rows = [line.strip().partition("|") for line in text.splitlines() if "|" in line]
    # Without a default one sbatch wants to be told; then it does not matter which is looked at.
    own = [row for row in rows if partition or row[0].endswith("*")] or rows
    default = next((name.rstrip("*") for name, _, _ in rows if name.endswith("*")), "")
    return {"partition": partition or default, "gpus": str(max((_gpus(row[2]) for row in own), default=0))}


def allocated_gpus(job_id: str, nodes: int) -> int:
    """The fewest GPUs that a job has on any of its nodes. Raises SiteError where Slurm does not answer."""
    return read_allocated(commands.call("scontrol", "show", "job", "--details", job_id), nodes)


def read_allocated(text: str, nodes: int) -> int:
    """As allocated_gpus, from the answer of `scontrol show job --details`. Pure."""
    if groups := _ALLOCATED.findall(text):
        return min(_gpus(group) for group in groups)
    total = _TRES.search(text)
    return int(total[1]) // max(nodes, 1) if total is not None else 0


def _gpus(resources: str) -> int:
    """Of generic resources as Slurm writes them: ``gpu:h100:4(S:0),gpu:2(IDX:0-1),nvme:1``."""
    parts = re.sub(r"\([^)]*\)", "", resources).split(",")
    counts: Sequence[str] = [part.split(":")[-1] for part in parts if part.split(":")[0] == "gpu"]
    return sum(int(count) for count in counts if count.isdecimal())
