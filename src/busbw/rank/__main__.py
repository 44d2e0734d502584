"""``python -m busbw.rank``: a rank that a busbw front process started. Its stdout is the event stream."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from busbw.rank import profile, progress
from busbw.rank.backends.gpu_ahead import begin as begin_with_gpu
from busbw.rank.process import (
    AHEAD,
    bind,
    block,
    collect_garbage_seldom,
    emit,
    keep_libraries_from_threads,
    keep_to_loopback,
    offer_stack,
)
from busbw.rank.watcher import begin, exit_code, say_hello
from busbw.rank.world.identity import identify
from busbw.rank.world.watched import FRONT_VARIABLE

if TYPE_CHECKING:
    from busbw.rank.entry import Director
    from busbw.rank.world.identity import Identity

REQUEST_VARIABLE: Final = "BUSBW_REQUEST"
WORLD_VARIABLE: Final = "BUSBW_WORLD"


def main() -> int:
    """Live as one rank; the front process judges, so a complete run exits 0 whatever was found."""
    collect_garbage_seldom()
    keep_libraries_from_threads(os.environ)
    if AHEAD in sys.argv and not _hear_variables():
        return 0
    if profile.is_asked(os.environ.get(profile.VARIABLE, ""), os.environ):
        folder = Path(os.environ[REQUEST_VARIABLE]).parent.parent
        more = os.environ.get(profile.WORDS_VARIABLE, "")
        # Before signals are blocked: it would inherit that.
        return profile.enter(folder, identify(os.environ), ("busbw.rank",), more)
    block()
    offer_stack()
    identity = identify(os.environ)
    rank = identity.rank if identity is not None else 0
    if identity is not None:  # before a core of its own is taken: the watcher has none
        stall_s = progress.stall_seconds(os.environ.get(progress.VARIABLE, ""))
        begin(identity, stall_s, emit)
    bind(identity.local_rank if identity is not None else None, os.environ)
    if FRONT_VARIABLE in os.environ:  # on this host alone
        keep_to_loopback(os.environ)
    # Before anything heavy is imported: a rank that dies is known to the front process by these.
    watched = say_hello(rank)
    if os.environ.get(WORLD_VARIABLE) == "nccl" and identity is not None:
        begin_with_gpu(identity.local_rank or 0)
    code = _live(identity, rank)
    watched.leave()
    return exit_code(code)


def _hear_variables() -> bool:
    """Load what a rank needs, then take the front process's variables; False where it sends none."""
    block()
    import busbw.rank.backends.nccl
    import busbw.rank.entry  # noqa: F401 (both only loaded)

    line = sys.stdin.readline()
    os.environ.update(json.loads(line or "{}"))
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    return bool(line)


def _live(identity: Identity | None, rank: int) -> int:
    from busbw.rank.entry import live

    choice = os.environ.get(WORLD_VARIABLE, "auto")
    return int(live(identity, choice, _director() if rank == 0 else None, emit))  # type: ignore[arg-type]


def _director() -> Director:
    from busbw.model.plan import Plan
    from busbw.rank.entry import Director
    from busbw.rank.rank0 import Request

    fields = json.loads(Path(os.environ[REQUEST_VARIABLE]).read_text())
    plan = fields.pop("plan")
    fields["argv"] = tuple(fields["argv"])
    return Director(lambda: Request(**fields), lambda ranks: Plan.from_json(plan), closes_record=False)


if __name__ == "__main__":
    raise SystemExit(main())
