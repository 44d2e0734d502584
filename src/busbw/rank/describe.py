"""Who takes part and with what: gathered once, for the header and the record."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from busbw._version import __version__
from busbw.machine.libraries import library_info
from busbw.machine.place import read_place
from busbw.model.record import HostInfo, RankInfo, WorldInfo
from busbw.rank.backends.base import Backend
from busbw.rank.world.base import World, speaks_for_host


def describe(world: World, backend: Backend, facts: Mapping[str, Any] | None = None) -> WorldInfo | None:
    """The world on rank 0, None elsewhere; ``facts`` are this rank's beside the backend's. Collective."""
    member, identity = world.members[world.rank], backend.identity
    own = RankInfo(
        rank=world.rank,
        host=member.host,
        pid=member.pid,
        local_rank=member.local_rank,
        device=identity.device,
        device_uuid=identity.device_uuid,
        library=identity.library,
        library_version=identity.version,
        library_path=identity.path,
        library_build_id=library_info(identity.path).build_id if identity.path else "",
        facts={**identity.facts, **(facts or {}), "busbw": __version__},
    )
    is_first = speaks_for_host(world)
    place = asdict(read_place(member.host, os.environ, identity.device_uuid)) if is_first else None
    gathered = world.gather(json.dumps([asdict(own), place]).encode())
    if gathered is None:
        return None
    told: list[RankInfo] = []
    places: list[HostInfo] = []
    for item in gathered:  # one at a time: what was read takes several times its text
        rank, of_host = json.loads(item)
        told.append(RankInfo(**rank))
        if of_host is not None:
            places.append(HostInfo(**of_host))
    return WorldInfo(world.kind, world.launcher, world.size, tuple(told), tuple(places))
