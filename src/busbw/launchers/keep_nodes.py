"""The same launch on the nodes that an earlier one had: what differs between nodes is then in no interval."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TextIO

from busbw.record.read import read_record
from busbw.settings.launch import LaunchSettings


def on_nodes_of(folder: Path, launch: LaunchSettings, err: TextIO) -> LaunchSettings:
    """The launch on the nodes of the run in ``folder``, which is told. As it is where other launches are on
    the same nodes anyway or nodes cannot be chosen, and where the record does not name them.
    """
    world = read_record(folder).world if launch.on == "kubernetes" else None
    nodes = [place.kubernetes_node for place in world.places] if world is not None else []
    if not nodes or not all(nodes):
        return launch
    names = ",".join(sorted(set(nodes)))
    print(f"later launches on {len(nodes)} nodes keep to those of this one: {names}", file=err, flush=True)
    return replace(launch, set=(*launch.set, "only=", f"only={names}"))
