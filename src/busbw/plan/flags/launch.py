"""Where a run takes place, when it is not this host: the flags that ``run`` and ``exec`` share.

Values stay as the user wrote them; each engine (``launch/``) reads what concerns it and refuses the rest.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Final, Literal

from busbw.plan.flags.engines import EngineName
from busbw.plan.flags.flag import Flags, settings
from busbw.plan.flags.values import Between, Ranged, Seconds, changed

of_engine = Flags("Engine (--on)", 6)

# What a new job on Slurm is asked for; an allocation that is there (--job-id) has it already.
OF_NEW_JOB: Final = ("partition", "account", "time_limit", "exclusive", "segment", "sbatch_args")

# A name that a shell takes for a variable.
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

MpiName = Literal["auto", "openmpi", "mpich", "none"]


def _preset_names(context: object) -> tuple[str, ...]:  # noqa: ARG001 (cyclopts calls it so)
    """What a shell completes for --preset. The module is named by a word: it reads these flags."""
    names: tuple[str, ...] = import_module("busbw.plan.presets.preset").names()
    return names


@settings
class LaunchSettings(Ranged):
    """Settings of one launch on an engine."""

    on: EngineName | None = of_engine(
        None,
        "Where to run: hosts (over SSH), slurm, kubernetes, pbs. [default: this host]",
        show_choices=False,
    )
    preset: tuple[str, ...] = of_engine(
        (),
        "Use the values of a known cluster (`busbw presets list`); your flags win. May be repeated.",
        completer=_preset_names,
    )
    nodes: str = of_engine("", "Nodes to use; 2,4,8 submits a job for each.", "-N")
    ranks_per_node: int | None = of_engine(
        None, "Ranks on each node. [default: its GPUs, slots or 1, by engine]", Between(1)
    )
    hosts: str = of_engine("", "Hosts: a,b,c, or n[01-16], or a:4,b:4 with ranks on each.")
    hostfile: Path | None = of_engine(
        None, "File with one host a line: name, name:N or `name slots=N`; ranks follow its order."
    )
    topology: tuple[str, ...] = of_engine(
        (),
        "Order ranks by switch, from a topology file (AWS, Slurm, Kubernetes nodes, a run) or `slurm`. May"
        " be repeated.",
    )
    mpi: MpiName = of_engine(
        "auto",
        "MPI that starts the ranks: auto, openmpi, mpich, or none (busbw's own TCP channel).",
        show_choices=False,
    )
    image: str = of_engine(
        "", "Container image that has busbw (Kubernetes; Slurm with pyxis).", "--container"
    )
    mounts: str = of_engine("", "Container mounts, as /from:/to,/both,/in:/to:ro.")
    python: str = of_engine(
        "", "Python with busbw on the nodes. [default: this one's path; in an image python3]"
    )
    bring: bool = of_engine(False, "Copy busbw and its packages to the nodes for this run, then remove them.")
    setup_script: Path | None = of_engine(None, "Script that every node sources first.")
    env: tuple[str, ...] = of_engine((), "Set a variable of the ranks: K=V. May be repeated.")
    env_file: Path | None = of_engine(None, "File of variables, one K=V a line.")
    library_path: tuple[str, ...] = of_engine(
        (), "Put this folder in front of the ranks' LD_LIBRARY_PATH. May be repeated."
    )
    job_id: str = of_engine("", "Run inside this Slurm allocation.")
    partition: str = of_engine("", "Slurm partition, PBS queue.")
    account: str = of_engine("", "Account to charge.")
    time_limit: str = of_engine("", "Time limit of the job, in the engine's own format.")
    exclusive: bool = of_engine(True, "Ask for whole nodes (Slurm, PBS).", negative="--shared")
    segment: int | None = of_engine(None, "Slurm: number of nodes that must be in one block.", Between(1))
    mpirun_args: str = of_engine("", "More flags for mpirun.", allow_leading_hyphen=True)
    srun_args: str = of_engine("", "More flags for srun.", allow_leading_hyphen=True)
    sbatch_args: str = of_engine("", "More flags for sbatch.", allow_leading_hyphen=True)
    namespace: str = of_engine("", "Kubernetes namespace. [default: context's]")
    context: str = of_engine("", "Kubernetes context of the kubeconfig.")
    set: tuple[str, ...] = of_engine(
        (),
        "Set a value of the job: KEY=VALUE (kind, slots, np, replicas, gpu, nic, instance-type, ...). May be"
        " repeated.",
    )
    patch: Path | None = of_engine(None, "YAML file to merge into the Kubernetes manifest.")
    wait: Seconds | None = of_engine(
        None, "Give up if the job has not started after this time. [default: by engine]"
    )
    detach: bool = of_engine(
        False, "Submit and return; `busbw attach` shows the table and fetches the record."
    )

    def given(self) -> tuple[str, ...]:
        """Names of the settings that are not at their defaults, but for ``on`` and ``preset``."""
        return tuple(name for name in changed(self) if name not in ("on", "preset"))
