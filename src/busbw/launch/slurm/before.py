"""Before a job is submitted to Slurm: is there such a partition, has it the nodes, and can it run an image?

Whether the nodes see the run folder is only known on them: the ranks say it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from busbw.launch.engine import Job, JobRequest
from busbw.launch.scheduler import ask, call
from busbw.model.finding import Finding, Severity

# States of nodes that come back by themselves, with sinfo's marks behind them (sinfo(1)).
_USABLE: Final = ("idle", "mixed", "allocated", "completing", "planned", "reserved")
_FORMAT: Final = "%R|%a|%D|%T"


@dataclass(frozen=True)
class Partition:
    """One of a name: ``usable`` are those of its nodes that can be used now or later."""

    name: str
    is_up: bool
    nodes: int
    usable: int
    states: str


def look(job: Job, request: JobRequest) -> tuple[Finding, ...]:
    """Ask sinfo and srun, and judge. Raises SiteError where Slurm does not answer."""
    launch = job.launch
    found: list[Finding] = []
    if not launch.job_id:
        text = call("sinfo", "--noheader", f"--format={_FORMAT}")
        found += judge(read_partitions(text), request.details["partition"], request.nodes or 0)
    if launch.image:
        help_text = ask(("srun", "--help")).stdout
        found += image_findings(launch.image, help_text, exists=Path(launch.image).exists())
    return tuple(found)


def read_partitions(text: str) -> tuple[Partition, ...]:
    """Rows of partition, up or down, number of nodes and their state."""
    rows = [line.strip().split("|") for line in text.splitlines() if line.count("|") == 3]
    return tuple(
        _partition(name, [row for row in rows if row[0] == name])
        for name in dict.fromkeys(row[0] for row in rows)
    )


def _partition(name: str, rows: Sequence[Sequence[str]]) -> Partition:
    usable = [row for row in rows if row[3].startswith(_USABLE) and "*" not in row[3]]
    return Partition(
        name,
        is_up=all(row[1] == "up" for row in rows),
        nodes=sum(int(row[2]) for row in rows),
        usable=sum(int(row[2]) for row in usable),
        states=", ".join(f"{row[2]} {row[3]}" for row in rows),
    )


def judge(partitions: Sequence[Partition], wanted: str, nodes: int) -> Iterator[Finding]:
    """All findings about a partition (or a list of them, of which Slurm takes one). Pure."""
    by_name = {partition.name: partition for partition in partitions}
    chosen = [by_name[name] for name in wanted.split(",") if name in by_name]
    if not chosen:
        if wanted:
            claim, known = f"invalid partition specified: {wanted}", f"this Slurm has {', '.join(by_name)}"
            hint = "give --partition one of those that `sinfo` lists"
            yield Finding(Severity.ERROR, claim, known, hint, check="partition")
        return
    best = max(chosen, key=lambda partition: (partition.usable, partition.nodes))
    states = f"its nodes: {best.states}"
    if best.nodes < nodes:
        claim = f"Node count {nodes} is more than partition {best.name} has ({best.nodes})"
        hint = "ask for fewer nodes (-N), or give another --partition"
        yield Finding(Severity.ERROR, claim, states, hint, check="nodes")
    elif best.usable < nodes:
        usable = f"{best.usable} of {best.nodes} nodes of partition {best.name} can be used"
        hint = "look at `sinfo -R` for why, or give a smaller -N"
        yield Finding(Severity.WARNING, f"{usable}, {nodes} are asked for", states, hint, check="nodes")
    if not any(partition.is_up for partition in chosen):
        claim = f"partition {best.name} is down: jobs are taken and do not start"
        yield Finding(Severity.WARNING, claim, hint="give another --partition", check="partition")


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
