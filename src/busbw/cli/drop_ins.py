"""Command lines of other tools, word by word."""

from __future__ import annotations

import sys
from typing import Annotated

from busbw.cli.app import command_line, positional
from busbw.errors import ExitCode


def nccl_tests(
    *words: Annotated[
        str, positional("The test (all_reduce_perf, ...) and its flags.", allow_leading_hyphen=True)
    ],
) -> int:
    """Its exit status is nccl-tests' own."""
    from busbw.foreign.nccl_tests.command import nccl_tests as front_door

    return front_door(words, command_line())


def nccom_test(
    *words: Annotated[str, positional("An operation and flags of nccom-test.", allow_leading_hyphen=True)],
) -> ExitCode:
    """A command line of nccom-test."""
    from busbw.foreign.nccom.command import nccom_test as front_door

    return front_door(words, command_line(), sys.stdout, sys.stderr)
