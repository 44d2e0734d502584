"""Launch settings as the engines take them, from what users write and the job that busbw was started in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from busbw.errors import UsageError
from busbw.settings.engines import ENGINES, FORM_FLAGS
from busbw.settings.launch import LaunchSettings

# PBS tells its jobs their nodes in a file: a line for each slot.
PBS_NODES: Final = "PBS_NODEFILE"
_COUNTS: Final = ("slots", "replicas")
_INSTEAD: Final = (
    "--ranks (np), --ranks-per-node (slots), -N (replicas), --image (image), --mounts, --srun-args, or"
    " --sbatch-args for what a job asks for (gpu: --gpus-per-node=8, memory: --mem=0, instance-type:"
    " --constraint=TYPE)"
)


def settle(launch: LaunchSettings, environ: Mapping[str, str]) -> tuple[LaunchSettings, tuple[str, ...]]:
    """The settings with plain keys in ``set`` and the hosts of a PBS job, and what to tell of that. Raises
    UsageError.
    """
    launch = replace(launch, set=tuple(_plain(word, launch) for word in launch.set))
    if launch.on is not None and not ENGINES[launch.on].has_form:
        launch = _as_flags(launch)
    return with_pbs_hosts(launch, environ)


def _plain(word: str, launch: LaunchSettings) -> str:
    """KEY=VALUE without the preset or engine that may stand before the key."""
    name, equals, value = word.partition("=")
    prefix, dot, key = name.rpartition(".")
    if not dot:
        return word
    chosen = [preset.partition("@")[0] for preset in launch.preset]
    known = {str(launch.on), *launch.preset, *chosen, *(name.rpartition("/")[2] for name in chosen)}
    if prefix in known or (prefix == "preset" and chosen):
        return f"{key}{equals}{value}"
    chosen_words = f"not the chosen one ({', '.join(launch.preset)})" if chosen else "and none was chosen"
    raise UsageError(
        f"--set {word} names preset {prefix}, {chosen_words}",
        hint=f"leave {prefix}. out, or choose a preset with --preset",
    )


def _as_flags(launch: LaunchSettings) -> LaunchSettings:
    """--set over the flags that say the same."""
    for word in launch.set:
        key, _, value = word.partition("=")
        if key not in FORM_FLAGS:
            raise UsageError(f"--set {key} means nothing on Slurm", hint=f"use {_INSTEAD}")
        if key in _COUNTS and not (value.isdecimal() and int(value)):
            raise UsageError(f"--set {word} is no count", hint="give 1 or more")
        said: dict[str, Any] = {FORM_FLAGS[key]: int(value) if key == "slots" else value}
        launch = replace(launch, **said)
    return replace(launch, set=())


def with_pbs_hosts(
    launch: LaunchSettings, environ: Mapping[str, str]
) -> tuple[LaunchSettings, tuple[str, ...]]:
    """The settings with the hosts of the PBS job around, and a note of it, where hosts are wanted and none
    named. Raises UsageError.
    """
    path = environ.get(PBS_NODES, "")
    if launch.on != "hosts" or launch.hosts or launch.hostfile is not None or not path:
        return launch, ()
    try:
        slots = Counter(Path(path).read_text().split())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read {PBS_NODES}, which names this job's hosts: {error}", hint="give --hosts"
        ) from error
    hosts = ",".join(f"{host}:{count}" for host, count in slots.items())
    note = f"{len(slots)} hosts with {slots.total()} slots, from {PBS_NODES}"
    return replace(launch, hosts=hosts), (note,)
