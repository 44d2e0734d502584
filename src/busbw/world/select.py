"""The one place that turns an identity and a wish into a world."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from busbw.errors import LauncherMismatch
from busbw.world.solo import SoloWorld

if TYPE_CHECKING:
    from busbw.world.base import OnFailure, World, WorldKind
    from busbw.world.identity import Identity

WorldChoice = Literal["auto", "solo", "mpi", "nccl"]


def create(identity: Identity | None, kind: WorldChoice, on_failure: OnFailure) -> World:
    """Join the world of ``kind``; ``auto`` takes the launcher's default, and without a launcher ``solo``.

    ``on_failure`` is called once when a rank is lost (``base.OnFailure``). Raises ``LauncherMismatch`` when
    the kind needs ranks that the launcher did not start, ``SiteError`` when MPI or the root address is
    missing, ``RankFailed`` when ranks do not arrive. Heavy libraries are imported here, for the chosen kind
    only.
    """
    chosen = default_kind(identity) if kind == "auto" else kind
    started = 1 if identity is None else identity.size
    if chosen == "mpi":
        from busbw.world import mpi

        return mpi.connect(identity, on_failure)
    if chosen == "nccl" and identity is not None and started != 1:
        from busbw.world import nccl

        return nccl.connect(identity, on_failure)
    if started != 1:
        raise LauncherMismatch(
            f"solo was asked for, but {identity.launcher if identity else ''} started {started} ranks",
            hint="leave --world out, or start one process only",
        )
    return SoloWorld(identity.launcher if identity else "none")


def default_kind(identity: Identity | None) -> WorldKind:
    """What ``auto`` means: MPI under an MPI launcher, the TCP channel under any other, solo without one."""
    if identity is None:
        return "solo"
    return identity.world
