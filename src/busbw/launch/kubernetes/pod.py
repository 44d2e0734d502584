"""Starts the ranks of one pod of an indexed Job or JobSet, where a pod has several; runs inside the pod.

``python -m busbw.launch.kubernetes.pod SLOTS COMMAND ...``: rank = pod's number x SLOTS + local rank.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

from busbw.errors import ExitCode
from busbw.launch.base import Command, rank_variables
from busbw.launch.interrupt import Interrupt
from busbw.launch.processes import Exit, Line, Processes

_LAST_WORDS_SECONDS: Final = 5.0


def rank_commands(slots: int, argv: Sequence[str], environ: Mapping[str, str]) -> tuple[Command, ...]:
    """The processes of the pod that ``environ`` belongs to. Raises KeyError outside such a pod."""
    first = int(environ["JOB_COMPLETION_INDEX"]) * slots
    size, root = int(environ["BUSBW_WORLD_SIZE"]), environ["BUSBW_ROOT"]
    return tuple(
        Command(tuple(argv), rank_variables((first + local, size), (local, slots), root))
        for local in range(slots)
    )


def main(words: Sequence[str]) -> int:
    """Run them to their end; the first bad exit code is the pod's. The others notice by themselves and say
    so; those that do not are ended.
    """
    commands = rank_commands(int(words[0]), words[1:], os.environ)
    code, bad_since_s = 0, 0.0
    with Interrupt() as interrupt, Processes(commands) as processes:
        for item in processes.follow():
            if isinstance(item, Line):
                # Whole lines: ranks that shared a pipe would write into each other's.
                print(item.text, file=sys.stderr if item.is_error else sys.stdout, flush=True)
            elif isinstance(item, Exit) and item.code != 0 and code == 0:
                code = item.code if item.code > 0 else 128 - item.code
                bad_since_s = time.monotonic()
            if interrupt.requested or (code and time.monotonic() - bad_since_s > _LAST_WORDS_SECONDS):
                break
    return code or (ExitCode.INTERRUPTED if interrupt.requested else 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
