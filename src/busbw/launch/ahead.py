"""Ranks of this host that start before it is known what they are to do.

Python and a rank's modules take a third of a second to load, and so do those of the command line: they load
at the same time. Such a process then reads its variables from its standard input (``rank.__main__``), and
ends where that ends without any.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from busbw.launch.agent import start
from busbw.rank import profile
from busbw.rank.process import AHEAD

RANK_COMMAND = (sys.executable, "-m", "busbw.rank")

# What the loader of libraries, Python and a rank under a profiler read as they start.
_READ_AT_START: Final = ("LD_", "PYTHON", profile.VARIABLE)
_waiting: dict[str, subprocess.Popen[bytes]] = {}  # by the rank's number, which its environment has at once
_RANK: Final = "BUSBW_RANK"


def likely_gpus(environ: Mapping[str, str], dev: Path = Path("/dev")) -> int:
    """How many GPUs the device nodes and CUDA_VISIBLE_DEVICES promise; the driver would take its time."""
    nodes = sum(path.name[len("nvidia") :].isdecimal() for path in dev.glob("nvidia*"))
    named = environ.get("CUDA_VISIBLE_DEVICES")
    return nodes if named is None else min(nodes, len(named.split(",")) if named else 0)


def begin(ranks: int) -> None:
    """Start so many, before this process has threads. What fails here fails again where it is needed."""
    with contextlib.suppress(OSError):
        for rank in map(str, range(ranks)):
            _waiting[rank] = start((*RANK_COMMAND, AHEAD), {_RANK: rank}, subprocess.PIPE)


def take(argv: tuple[str, ...], environ: Mapping[str, str]) -> subprocess.Popen[bytes] | None:
    """The one that waits for this command of a rank, now with its variables."""
    if argv != RANK_COMMAND or any(name.startswith(_READ_AT_START) for name in environ):
        return None
    process = _waiting.pop(environ.get(_RANK, ""), None)
    if process is None:
        return None
    assert process.stdin is not None
    try:
        with process.stdin as pipe:
            pipe.write(json.dumps({**os.environ, **environ}).encode() + b"\n")
    except OSError:  # it has ended
        return None
    process.stdin = None
    return process


def dismiss() -> None:
    """End those that nobody needs."""
    for process in _waiting.values():
        process.kill()
        process.communicate()
    _waiting.clear()
