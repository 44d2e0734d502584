"""``python -m busbw.worker``: a rank that a busbw front process started. Its stdout is the event stream."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

from busbw.model.event import Event, EventKind, encode, event
from busbw.model.plan import Plan
from busbw.worker.entry import Director, live
from busbw.worker.lead import Request
from busbw.world.identity import identify

REQUEST_VARIABLE = "BUSBW_REQUEST"
WORLD_VARIABLE = "BUSBW_WORLD"


def emit(item: Event) -> None:
    """One line in one write, so that launchers which merge the ranks' output cannot mix it with another."""
    sys.stdout.write(encode(item) + "\n")
    sys.stdout.flush()


def _director() -> Director:
    fields = json.loads(Path(os.environ[REQUEST_VARIABLE]).read_text())
    plan = fields.pop("plan")
    fields["argv"] = tuple(fields["argv"])
    return Director(request=lambda: Request(**fields), plan=lambda ranks: Plan.from_json(plan), emit=emit)


def main() -> int:
    """Live as one rank; the front process judges, so a complete run exits 0 whatever was found."""
    identity = identify(os.environ)
    rank = identity.rank if identity is not None else 0
    emit(event(EventKind.HELLO, rank=rank, pid=os.getpid(), host=socket.gethostname()))
    choice = os.environ.get(WORLD_VARIABLE, "auto")
    code = live(identity, choice, _director() if rank == 0 else None, emit)  # type: ignore[arg-type]
    return 0 if code in (0, 1) else int(code)


if __name__ == "__main__":
    raise SystemExit(main())
