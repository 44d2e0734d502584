"""Before a job is submitted to Slurm: is there such a partition, has it the nodes, and can it run an image?

Whether the nodes see the run folder is only known on them: the ranks say it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from busbw.launchers import slurm_commands as commands
from busbw.launchers.engine import Job, JobRequest
from busbw.model.finding import Finding, Severity

# States of nodes that come back by themselves, with sinfo's marks behind them (sinfo(1)).
_USABLE: Final = ("idle", "mixed", "allocated", "completing", "planned", "reserved")
_FORMAT: Final = "%R|%a|%D|%T"


@dataclass(frozen=True)
class Partition:
    """Of one name: ``is_up``, its nodes, and those of them that can be used now or later."""

    name: str
    is_up: bool
    nodes: int
    usable: int
    states: tuple[str, ...] = ()


def look(job: Job, request: JobRequest) -> tuple[Finding, ...]:
    """Ask sinfo and srun, and judge. Raises SiteError where Slurm does not answer."""
    launch = job.launch
    found: list[Finding] = []
    if not launch.job_id:
        text = commands.call("sinfo", "--noheader", f"--format={_FORMAT}")
        default = _default(commands.call("sinfo", "--noheader", "--format=%P"))
        partition = request.details["partition"] or default
        found += judge(read_partitions(text), partition, request.nodes or 0)
    if launch.image:
        help_text = commands.ask(("srun", "--help")).stdout
        found += image_findings(launch.image, help_text, exists=Path(launch.image).exists())
    return tuple(found)


def read_partitions(text: str) -> tuple[Partition, ...]:
    """Rows of partition, up or down, number of nodes and their state."""
    rows = [line.strip().split("|") for line in text.splitlines() if line.count("|") == 3]
    found = {}
    for name in dict.fromkeys(row[0] for row in rows):
        own = [(row[1], int(row[2]), row[3]) for row in rows if row[0] == name and row[2].isdigit()]
        found[name] = Partition(
            name,
            all(state == "up" for state, _, _ in own),
            sum(count for _, count, _ in own),
            sum(count for _, count, state in own if state.startswith(_USABLE) and "*" not in state),
            tuple(f"{count} {state}" for _, count, state in own),
        )
    return tuple(found.values())


def _default(text: str) -> str:
    """The partition that sinfo marks with a star; empty where there is none."""
    return next((word.rstrip("*") for word in text.split() if word.endswith("*")), "")


def judge(partitions: Sequence[Partition], wanted: str, nodes: int) -> Iterator[Finding]:
    """All findings about a partition (or a list of them, of which Slurm takes one). Pure."""
    by_name = {partition.name: partition for partition in partitions}
    chosen = [by_name[name] for name in wanted.split(",") if name in by_name]
    if wanted and not chosen:
        yield Finding(
            Severity.ERROR,
            f"invalid partition specified: {wanted}",
            f"this Slurm has {', '.join(by_name) or 'none'}",
            "give --partition one of those that `sinfo` lists",
            check="partition",
        )
        return
    if not chosen:
        return
    best = max(chosen, key=lambda partition: (partition.usable, partition.nodes))
    states = f"its nodes: {', '.join(best.states)}"
    if best.nodes < nodes:
        yield Finding(
            Severity.ERROR,
            f"Node count {nodes} is more than partition {best.name} has ({best.nodes})",
            states,
            "ask for fewer nodes (-N), or give another --partition",
            check="nodes",
        )
    elif best.usable < nodes:
        yield Finding(
            Severity.WARNING,
            f"{best.usable} of {best.nodes} nodes of partition {best.name} can be used,"
            f" {nodes} are asked for",
            states,
            "look at `sinfo -R` for why, or give a smaller -N",
            check="nodes",
        )
    if not any(partition.is_up for partition in chosen):
        yield Finding(
            Severity.WARNING,
            f"partition {best.name} is down: jobs are taken and do not start",
            hint="give another --partition",
            check="partition",
        )


def image_findings(image: str, srun_help: str, *, exists: bool) -> Iterator[Finding]:
    """Whether this Slurm can start containers, and has the image's file where it is one. Pure."""
    if "--container-image" not in srun_help:
        yield Finding(
            Severity.ERROR,
            "this Slurm cannot start containers: srun has no --container-image (pyxis)",
            hint="install pyxis and enroot, or leave --image out",
            check="pyxis",
        )
    if image.startswith("/") and not exists:
        yield Finding(
            Severity.WARNING,
            f"the image {image} is not seen from here",
            hint="correct --image, or make sure that the nodes have it",
            check="image",
        )
