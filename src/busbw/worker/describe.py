"""Who takes part and with what: gathered once, for the header and the record."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict

from busbw._version import __version__
from busbw.backends.base import Backend
from busbw.errors import SiteError
from busbw.model.record import HostInfo, RankInfo, WorldInfo
from busbw.probes.libraries import build_id
from busbw.probes.place import read_place
from busbw.world.base import World


def describe(world: World, backend: Backend, facts: Mapping[str, str] | None = None) -> WorldInfo | None:
    """The world as rank 0 sees it, None elsewhere; ``facts`` are this rank's beside the backend's. Collective
    over the world.

    Raises SiteError on rank 0 for what makes every number wrong: two ranks on one GPU, or ranks with other
    versions of busbw or of the library that is measured.
    """
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
        library_build_id=build_id(identity.path) if identity.path else "",
        facts={**identity.facts, **(facts or {}), "busbw": __version__},
    )
    # One rank of each host speaks for it.
    first = next(each.rank for each in world.members if each.host == member.host) == world.rank
    place = asdict(read_place(member.host, os.environ, identity.device_uuid)) if first else None
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
    ranks = tuple(told)
    _refuse_shared_devices(ranks)
    _refuse_different(ranks)
    return WorldInfo(world.kind, world.launcher, world.size, ranks, tuple(places))


def _refuse_shared_devices(ranks: tuple[RankInfo, ...]) -> None:
    users: dict[tuple[str, str], list[int]] = defaultdict(list)
    for rank in ranks:
        if rank.device_uuid:
            users[rank.host, rank.device_uuid].append(rank.rank)
    for (host, uuid), sharing in users.items():
        if len(sharing) > 1:
            raise SiteError(
                f"ranks {', '.join(map(str, sharing))} share one GPU ({uuid} on {host})",
                hint="start one rank per GPU, each with its own GPU visible",
                rank=sharing[1],
                host=host,
            )


def _refuse_different(ranks: tuple[RankInfo, ...]) -> None:
    first = ranks[0]
    for rank in ranks[1:]:
        for what, expected, found in (
            ("busbw", first.facts["busbw"], rank.facts["busbw"]),
            (first.library, first.library_version, rank.library_version),
        ):
            if expected != found:
                raise SiteError(
                    f"{what} {found} on rank {rank.rank} ({rank.host}), {expected} on rank 0 ({first.host})",
                    hint="install the same version on all hosts",
                    rank=rank.rank,
                    host=rank.host,
                )
