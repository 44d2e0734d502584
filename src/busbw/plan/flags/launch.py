"""Where a run takes place, when it is not this host: the flags that ``run`` and ``exec`` share.

Values stay as the user wrote them; each engine (``launch/``) reads what concerns it and refuses the rest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from busbw.plan.flags.engines import EngineName
from busbw.plan.flags.flag import Group
from busbw.plan.flags.values import Between, Ranged, Seconds

ENGINE = Group("Engine (--on)", sort_key=6)

# What a new job on Slurm is asked for; an allocation that is there (--job-id) has it already.
OF_NEW_JOB: Final = ("partition", "account", "time_limit", "exclusive", "segment", "sbatch_args")

# A name that a shell takes for a variable.
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

MpiName = Literal["auto", "openmpi", "mpich", "none"]


def _preset_names(context: object) -> tuple[str, ...]:  # noqa: ARG001 (cyclopts calls it so)
    """What a shell completes for --preset. The module is named by a word: it reads these flags."""
    names: tuple[str, ...] = import_module("busbw.plan.presets.preset").names()
    return names


@Parameter(name="*", group=ENGINE)
@dataclass(frozen=True)
class LaunchSettings(Ranged):
    """Settings of one launch on an engine."""

    on: Annotated[
        EngineName | None,
        Parameter(
            help="Where to run: hosts (over SSH), slurm, kubernetes, pbs. [default: this host]",
            show_choices=False,
        ),
    ] = None
    preset: Annotated[
        tuple[str, ...],
        Parameter(
            completer=_preset_names,
            help="Use the values of a known cluster (`busbw presets list`); your flags win. May be repeated.",
        ),
    ] = ()
    nodes: Annotated[
        str, Parameter(name=["--nodes", "-N"], help="Nodes to use; 2,4,8 submits a job for each.")
    ] = ""
    ranks_per_node: Annotated[
        int | None,
        Between(1),
        Parameter(help="Ranks on each node. [default: its GPUs, slots or 1, by engine]"),
    ] = None
    hosts: Annotated[str, Parameter(help="Hosts: a,b,c, or n[01-16], or a:4,b:4 with ranks on each.")] = ""
    hostfile: Annotated[
        Path | None,
        Parameter(help="File with one host a line: name, name:N or `name slots=N`; ranks follow its order."),
    ] = None
    topology: Annotated[
        tuple[str, ...],
        Parameter(
            help="Order ranks by switch, from a topology file (AWS, Slurm, Kubernetes nodes, a run) or"
            " `slurm`. May be repeated."
        ),
    ] = ()
    mpi: Annotated[
        MpiName,
        Parameter(
            help="MPI that starts the ranks: auto, openmpi, mpich, or none (busbw's own TCP channel).",
            show_choices=False,
        ),
    ] = "auto"
    image: Annotated[
        str,
        Parameter(
            name=["--image", "--container"],
            help="Container image that has busbw (Kubernetes; Slurm with pyxis).",
        ),
    ] = ""
    mounts: Annotated[str, Parameter(help="Container mounts, as /from:/to,/both,/in:/to:ro.")] = ""
    python: Annotated[
        str, Parameter(help="Python with busbw on the nodes. [default: this one's path; in an image python3]")
    ] = ""
    bring: Annotated[
        bool, Parameter(help="Copy busbw and its packages to the nodes for this run, then remove them.")
    ] = False
    setup_script: Annotated[Path | None, Parameter(help="Script that every node sources first.")] = None
    env: Annotated[tuple[str, ...], Parameter(help="Set a variable of the ranks: K=V. May be repeated.")] = ()
    env_file: Annotated[Path | None, Parameter(help="File of variables, one K=V a line.")] = None
    library_path: Annotated[
        tuple[str, ...],
        Parameter(help="Put this folder in front of the ranks' LD_LIBRARY_PATH. May be repeated."),
    ] = ()
    job_id: Annotated[str, Parameter(help="Run inside this Slurm allocation.")] = ""
    partition: Annotated[str, Parameter(help="Slurm partition, PBS queue.")] = ""
    account: Annotated[str, Parameter(help="Account to charge.")] = ""
    time_limit: Annotated[str, Parameter(help="Time limit of the job, in the engine's own format.")] = ""
    exclusive: Annotated[bool, Parameter(negative="--shared", help="Ask for whole nodes (Slurm, PBS).")] = (
        True
    )
    segment: Annotated[
        int | None, Between(1), Parameter(help="Slurm: number of nodes that must be in one block.")
    ] = None
    mpirun_args: Annotated[str, Parameter(allow_leading_hyphen=True, help="More flags for mpirun.")] = ""
    srun_args: Annotated[str, Parameter(allow_leading_hyphen=True, help="More flags for srun.")] = ""
    sbatch_args: Annotated[str, Parameter(allow_leading_hyphen=True, help="More flags for sbatch.")] = ""
    namespace: Annotated[str, Parameter(help="Kubernetes namespace. [default: context's]")] = ""
    context: Annotated[str, Parameter(help="Kubernetes context of the kubeconfig.")] = ""
    set: Annotated[
        tuple[str, ...],
        Parameter(
            help="Set a value of the job: KEY=VALUE (kind, slots, np, replicas, gpu, nic, instance-type,"
            " ...). May be repeated."
        ),
    ] = ()
    patch: Annotated[Path | None, Parameter(help="YAML file to merge into the Kubernetes manifest.")] = None
    wait: Annotated[
        Seconds | None,
        Parameter(help="Give up if the job has not started after this time. [default: by engine]"),
    ] = None
    detach: Annotated[
        bool, Parameter(help="Submit and return; `busbw attach` shows the table and fetches the record.")
    ] = False

    def given(self) -> tuple[str, ...]:
        """Names of the settings that are not at their defaults, but for ``on`` and ``preset``."""
        plain = LaunchSettings()
        return tuple(
            field.name
            for field in fields(self)
            if field.name not in ("on", "preset") and getattr(self, field.name) != getattr(plain, field.name)
        )
