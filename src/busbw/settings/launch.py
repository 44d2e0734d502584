"""Where a run takes place, when it is not this host: the flags that ``run`` and ``exec`` share.

Values stay as the user wrote them; each engine (``launchers/``) reads what concerns it and refuses the rest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Group, Parameter

from busbw.settings.engines import EngineName

ENGINE = Group("Engine (--on)", sort_key=6)

# What a new job on Slurm is asked for; an allocation that is there (--job-id) has it already.
OF_NEW_JOB: Final = ("partition", "account", "time_limit", "exclusive", "segment", "sbatch_args")

# A name that a shell takes for a variable.
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

MpiName = Literal["auto", "openmpi", "mpich", "none"]


@Parameter(name="*")
@dataclass(frozen=True)
class LaunchSettings:
    """Settings of one launch on an engine."""

    on: Annotated[
        EngineName | None,
        Parameter(
            group=ENGINE,
            help="Where to run: hosts (over SSH), slurm, kubernetes, pbs, batch (AWS). [default: this host]",
            show_choices=False,
        ),
    ] = None
    preset: Annotated[
        tuple[str, ...],
        Parameter(
            group=ENGINE,
            negative="",
            show_default=False,
            help="A cluster that is known (`busbw presets list`): its values, under yours; may be repeated.",
        ),
    ] = ()
    nodes: Annotated[
        str,
        Parameter(
            name=["--nodes", "-N"],
            group=ENGINE,
            show_default=False,
            help="Nodes to use. Several, as 2,4,8: a job each.",
        ),
    ] = ""
    ranks_per_node: Annotated[
        int | None,
        Parameter(group=ENGINE, help="Ranks on each node. [default: its GPUs, slots or 1, by engine]"),
    ] = None
    hosts: Annotated[
        str, Parameter(group=ENGINE, show_default=False, help="Hosts, as a,b,c or a:4,b:4 (ranks on each).")
    ] = ""
    hostfile: Annotated[
        Path | None,
        Parameter(
            group=ENGINE,
            show_default=False,
            help="File of hosts, one a line: name, name:N or `name slots=N`; ranks follow its order.",
        ),
    ] = None
    topology: Annotated[
        tuple[str, ...],
        Parameter(
            group=ENGINE,
            negative="",
            show_default=False,
            help="Ranks follow the switches that this file (of AWS, Slurm, Kubernetes nodes, a run), or the"
            " word slurm, tells of; may be repeated.",
        ),
    ] = ()
    mpi: Annotated[
        MpiName,
        Parameter(
            group=ENGINE,
            help="MPI that starts the ranks: auto, openmpi, mpich, or none (busbw's own TCP channel).",
            show_choices=False,
        ),
    ] = "auto"
    image: Annotated[
        str,
        Parameter(
            name=["--image", "--container"],
            group=ENGINE,
            show_default=False,
            help="Container image that has busbw (Kubernetes; Slurm with pyxis).",
        ),
    ] = ""
    mounts: Annotated[
        str,
        Parameter(group=ENGINE, show_default=False, help="Container mounts, as /from:/to,/both,/in:/to:ro."),
    ] = ""
    python: Annotated[
        str,
        Parameter(
            group=ENGINE,
            show_default=False,
            help="Python that has busbw on the nodes. [default: this one's path; in an image python3]",
        ),
    ] = ""
    bring: Annotated[
        bool,
        Parameter(
            group=ENGINE,
            negative="",
            show_default=False,
            help="Copy busbw and its Python packages to the nodes for this run, and remove them after.",
        ),
    ] = False
    setup_script: Annotated[
        Path | None,
        Parameter(group=ENGINE, show_default=False, help="Script that every node sources first."),
    ] = None
    env: Annotated[
        tuple[str, ...],
        Parameter(
            group=ENGINE,
            negative="",
            show_default=False,
            help="Variable of the measured processes, as K=V; may be repeated.",
        ),
    ] = ()
    env_file: Annotated[
        Path | None,
        Parameter(group=ENGINE, show_default=False, help="File of such variables, one K=V a line."),
    ] = None
    library_path: Annotated[
        tuple[str, ...],
        Parameter(
            group=ENGINE,
            negative="",
            show_default=False,
            help="Folder put before what the ranks have in LD_LIBRARY_PATH, where they are; may be repeated.",
        ),
    ] = ()
    job_id: Annotated[
        str, Parameter(group=ENGINE, show_default=False, help="Run inside this Slurm allocation.")
    ] = ""
    partition: Annotated[
        str, Parameter(group=ENGINE, show_default=False, help="Slurm partition, PBS queue.")
    ] = ""
    account: Annotated[str, Parameter(group=ENGINE, show_default=False, help="Account to charge.")] = ""
    time_limit: Annotated[
        str,
        Parameter(group=ENGINE, show_default=False, help="Longest time of the job, as the engine writes it."),
    ] = ""
    exclusive: Annotated[
        bool, Parameter(group=ENGINE, negative="--shared", help="Whole nodes (Slurm, PBS).")
    ] = True
    segment: Annotated[
        int | None, Parameter(group=ENGINE, show_default=False, help="Slurm: nodes of one block together.")
    ] = None
    mpirun_args: Annotated[
        str,
        Parameter(group=ENGINE, show_default=False, allow_leading_hyphen=True, help="More words for mpirun."),
    ] = ""
    srun_args: Annotated[
        str,
        Parameter(group=ENGINE, show_default=False, allow_leading_hyphen=True, help="More words for srun."),
    ] = ""
    sbatch_args: Annotated[
        str,
        Parameter(group=ENGINE, show_default=False, allow_leading_hyphen=True, help="More words for sbatch."),
    ] = ""
    namespace: Annotated[
        str,
        Parameter(group=ENGINE, show_default=False, help="Kubernetes namespace. [default: context's]"),
    ] = ""
    context: Annotated[
        str, Parameter(group=ENGINE, show_default=False, help="Kubernetes context of the kubeconfig.")
    ] = ""
    set: Annotated[
        tuple[str, ...],
        Parameter(
            group=ENGINE,
            negative="",
            show_default=False,
            help="A value of the job's form, as KEY=VALUE (kind, slots, np, replicas, gpu, nic,"
            " instance-type, ...); may be repeated.",
        ),
    ] = ()
    wait: Annotated[
        str,
        Parameter(
            group=ENGINE,
            show_default=False,
            help="Give up on a job that has not started after this long, as 10m. [default: by engine]",
        ),
    ] = ""
    detach: Annotated[
        bool,
        Parameter(
            group=ENGINE,
            negative="",
            show_default=False,
            help="Submit and return; `busbw attach` shows the table and brings the record home.",
        ),
    ] = False

    def given(self) -> tuple[str, ...]:
        """Names of the settings that are not at their defaults, but for ``on`` and ``preset``."""
        plain = LaunchSettings()
        return tuple(
            field.name
            for field in fields(self)
            if field.name not in ("on", "preset") and getattr(self, field.name) != getattr(plain, field.name)
        )
