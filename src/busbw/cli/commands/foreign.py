"""Command lines of other tools, word by word."""

from __future__ import annotations

import sys
from typing import Annotated, Final

from busbw.cli.app import command, command_line, word
from busbw.errors import ExitCode

NCCL_TESTS: Final = "nccl-tests"


@command(
    "busbw nccl-tests all_reduce_perf -b 8 -e 8G -f 2 -g 8",
    "mpirun -np 64 busbw nccl-tests alltoall_perf -b 8 -e 1G -f 2 -g 1",
    "NCCL_TESTS_MIN_BW=400 busbw nccl-tests all_reduce_perf -b 8G -e 8G -g 8",
    name=NCCL_TESTS,
)
def nccl_tests(
    *words: Annotated[str, word("The test (all_reduce_perf, ...) and its flags.", allow_leading_hyphen=True)],
) -> int:
    """Run a command line of nccl-tests: its flags, its table, its exit status.

    Every rank is a process of its own: processes x threads x GPUs. `busbw nccl-tests all_reduce_perf -h`
    lists the flags.
    """
    from busbw.foreign.nccl_tests.command import nccl_tests as front_door

    return front_door(words, command_line())


@command(
    "busbw nccom-test -r 2 allr",
    "busbw nccom-test -r 2 -b 1kb -e 1mb -f 4 -d fp32 --check allg",
    name="nccom-test",
    help_flags=[],  # the whole command line is nccom-test's, its help too
    version_flags=[],
)
def nccom_test(
    *words: Annotated[str, word("An operation and flags of nccom-test.", allow_leading_hyphen=True)],
) -> ExitCode:
    """Run a command line of nccom-test (AWS Neuron): its flags, its table, its JSON file."""
    from busbw.foreign.nccom.command import nccom_test as front_door

    return front_door(words, command_line(), sys.stdout, sys.stderr)
