"""Starts the ranks of one pod of an indexed Job or JobSet, where a pod has several; runs inside the pod.

``python -m busbw.launch.kubernetes.pod SLOTS COMMAND ...``: rank = pod's number x SLOTS + local rank.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from busbw.errors import ExitCode
from busbw.launch.base import Command, rank_variables
from busbw.launch.interrupt import Interrupt
from busbw.launch.processes import pass_on

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
    with Interrupt() as interrupt:
        codes = pass_on(commands, lambda: interrupt.requested, _LAST_WORDS_SECONDS)
    code = next(filter(None, codes.values()), 0)
    if not code and interrupt.requested:
        return ExitCode.INTERRUPTED
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
