"""Who takes part and with what: gathered once, for the header and the record."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict

from busbw._version import __version__
from busbw.backends.base import Backend
from busbw.errors import SiteError
from busbw.model.record import RankInfo, WorldInfo
from busbw.probes.libraries import build_id
from busbw.world.base import World


def describe(world: World, backend: Backend) -> WorldInfo | None:
    """The world as rank 0 sees it, None elsewhere. Collective over the world.

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
        facts={**identity.facts, "busbw": __version__},
    )
    gathered = world.gather(json.dumps(asdict(own)).encode())
    if gathered is None:
        return None
    ranks = tuple(RankInfo(**json.loads(item)) for item in gathered)
    _refuse_shared_devices(ranks)
    _refuse_different(ranks)
    return WorldInfo(world.kind, world.launcher, world.size, ranks)


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
