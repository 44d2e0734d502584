"""Settings of ``busbw hang``: where the job is, and what is asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Group, Parameter

from busbw.plan.flags.values import Seconds

_JOB: Final = Group("The job", sort_key=4)


@Parameter(name="*", group=_JOB)
@dataclass(frozen=True)
class HangSettings:
    """Where the job is. Without any: on this host."""

    host: Annotated[str, Parameter(show_default=False, help="Hosts of the job, asked over SSH: h1,h2.")] = ""
    pid: Annotated[
        int | None, Parameter(show_default=False, help="Only the job of this process on this host.")
    ] = None
    job_id: Annotated[str, Parameter(show_default=False, help="A job of Slurm, asked with srun.")] = ""
    pods: Annotated[
        str, Parameter(show_default=False, help="Pods of the job, asked with kubectl: p1,p2.")
    ] = ""
    namespace: Annotated[str, Parameter(show_default=False, help="Where the pods are.")] = ""
    flight_recorder: Annotated[
        Path | None,
        Parameter(show_default=False, help="Read PyTorch's flight recorder: the dumps in this folder."),
    ] = None
    ras: Annotated[
        str,
        Parameter(
            show_default=False,
            help="Where NCCL listens on each host. [default: NCCL_RAS_ADDR of --pid, or localhost:28028]",
        ),
    ] = ""
    wait: Annotated[
        Seconds, Parameter(help="Time between two looks. A job whose counts change does not hang.")
    ] = Seconds("5s")
