"""The same launch without one of its hosts or ranks, for a hunt that goes on when that is lost."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from busbw.launchers.hosts_list import read_places
from busbw.launchers.slurm_words import split_words, value_of
from busbw.launchers.variables import read_here
from busbw.probes.visible import VISIBLE, words_of_gpus
from busbw.settings.launch import LaunchSettings

if TYPE_CHECKING:
    from collections.abc import Mapping


def without(launch: LaunchSettings, host: str, node: str) -> LaunchSettings | None:
    """The launch on one host fewer; ``node`` is its engine's name of it. None where fewer than two would be
    left, and where hosts cannot be chosen from here: other engines, an allocation that is there already.
    """
    if launch.on == "hosts":
        return _other_hosts(launch, host)
    if not launch.nodes.isdecimal() or int(launch.nodes) <= 2 or launch.job_id:
        return None
    fewer = replace(launch, nodes=str(int(launch.nodes) - 1))
    if launch.on == "slurm":
        return replace(fewer, sbatch_args=_excluding(launch.sbatch_args, node))
    if launch.on == "kubernetes":
        return replace(fewer, set=(*launch.set, f"exclude={node}"))
    return None


def without_gpu(
    launch: LaunchSettings, inherited: Mapping[str, str], ranks: int, rank: int
) -> tuple[LaunchSettings, str] | None:
    """The launch of ``ranks`` ranks on this host on the GPUs of the others, by the user's own words for them,
    and the word of the one that is left out. None where it is not known which GPU each rank has.
    """
    words = words_of_gpus({**inherited, **read_here(launch, inherited)}, ranks)
    if len(words) < ranks:
        return None
    left = ",".join(word for at, word in enumerate(words) if at != rank)
    return replace(launch, env=(*launch.env, f"{VISIBLE}={left}")), words[rank]


def _other_hosts(launch: LaunchSettings, host: str) -> LaunchSettings | None:
    if not (launch.hosts or launch.hostfile):
        return None
    places = read_places(launch)
    left = [place for place in places if place.name != host]
    if len(left) == len(places) or len(left) < 2:
        return None
    words = (place.host if place.slots is None else f"{place.host}:{place.slots}" for place in left)
    return replace(launch, hosts=",".join(words), hostfile=None, nodes="")


def _excluding(text: str, node: str) -> str:
    """Words for sbatch with another node to leave out: it takes the last --exclude alone, so that has all."""
    words = split_words("--sbatch-args", text)
    every = ",".join(filter(None, (value_of(words, "--exclude", "-x"), node)))
    return shlex.join([*words, f"--exclude={every}"])
