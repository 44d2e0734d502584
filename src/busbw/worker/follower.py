"""A rank other than 0 that somebody's launcher started: no settings, no display, one line if it fails
alone.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import TYPE_CHECKING, Final

from busbw.model.event import Event, EventKind, event
from busbw.worker.emit import emit
from busbw.worker.entry import live
from busbw.world.watched import Watched

if TYPE_CHECKING:
    from busbw.world.identity import Identity
    from busbw.world.select import WorldChoice

# With this flag a front process, maybe far away, reads what the ranks print.
DELIVER: Final = "--deliver="
_WORLDS = ("auto", "solo", "mpi", "nccl")


def follow(identity: Identity, arguments: list[str]) -> int:
    """Live as this rank; the exit code is the same as rank 0's."""
    if not any(word.startswith(DELIVER) for word in arguments):
        return int(live(identity, world_choice(arguments), None, _tell))
    watched = Watched(identity.rank, os.environ)
    emit(event(EventKind.HELLO, rank=identity.rank, pid=os.getpid(), host=socket.gethostname()))
    code = int(live(identity, world_choice(arguments), None, emit, watched))
    return 0 if code in (0, 1, 3) else code  # a front process judges: no engine is to start the ranks again


def world_choice(arguments: list[str]) -> WorldChoice:
    """The one setting that must be known before rank 0 can send the others: how ranks find each other."""
    chosen = os.environ.get("BUSBW_WORLD", "auto")
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word == "--world":
            chosen = following
        elif word.startswith("--world="):
            chosen = word.removeprefix("--world=")
    return chosen if chosen in _WORLDS else "auto"  # type: ignore[return-value]  # rank 0 refuses the rest


def _tell(item: Event) -> None:
    place = f"rank {item['rank']}" + (f" on {item['host']}" if item["host"] else "")
    hint = f"\nhint: {item['hint']}" if item["hint"] else ""
    print(f"error: {place}: {item['message']}{hint}", file=sys.stderr)  # noqa: T201
