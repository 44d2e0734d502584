"""The same launch on the nodes that an earlier one had: what differs between nodes is then in no interval."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TextIO

from busbw.record.read import read_record
from busbw.settings.launch import LaunchSettings


def on_nodes_of(folder: Path, launch: LaunchSettings, err: TextIO) -> LaunchSettings:
    """The launch on the nodes of the run in ``folder``, which is told, as is that they are not known. As it
    is where other launches are on the same nodes anyway or nodes cannot be chosen.
    """
    if launch.on != "kubernetes":
        return launch
    world = read_record(folder).world
    nodes = sorted({place.kubernetes_node for place in world.places}) if world is not None else []
    if not all(nodes) or not nodes:
        print("later launches may get other nodes: the record does not name this one's", file=err, flush=True)
        return launch
    names = ",".join(nodes)
    shares = "" if launch.exclusive else ", on which pods may lie otherwise (--shared)"
    count = f"{len(nodes)} node{'s' * (len(nodes) != 1)}"
    print(f"later launches keep to the {count} of this one, {names}{shares}", file=err, flush=True)
    return replace(launch, set=(*launch.set, "only=", f"only={names}"))
