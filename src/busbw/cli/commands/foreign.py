"""Command lines of other tools, word by word."""

from __future__ import annotations

import sys
from typing import Annotated, Final

from cyclopts import Parameter

from busbw.cli.app import app, command_line, examples
from busbw.errors import ExitCode

NCCL_TESTS: Final = "nccl-tests"

NCCL_TESTS_HELP: Final = (
    "Run a command line of nccl-tests: its flags, its table, its exit status.\n\n"
    "Every rank is a process of its own: processes x threads x GPUs. `busbw nccl-tests all_reduce_perf -h`"
    " lists the flags."
)


@app.command(
    name=NCCL_TESTS,
    help=NCCL_TESTS_HELP,
    help_epilogue=examples(
        "busbw nccl-tests all_reduce_perf -b 8 -e 8G -f 2 -g 8",
        "mpirun -np 64 busbw nccl-tests alltoall_perf -b 8 -e 1G -f 2 -g 1",
        "NCCL_TESTS_MIN_BW=400 busbw nccl-tests all_reduce_perf -b 8G -e 8G -g 8",
    ),
)
def nccl_tests(
    *words: Annotated[
        str, Parameter(allow_leading_hyphen=True, help="The test (all_reduce_perf, ...) and its flags.")
    ],
) -> int:
    """Only its help is asked for here: ``main`` takes the words as they are."""
    from busbw.foreign.nccl_tests.command import nccl_tests as front_door

    return front_door(words, command_line())


@app.command(
    name="nccom-test",
    # The whole command line is nccom-test's, its help too.
    help_flags=[],
    version_flags=[],
    help_epilogue=examples(
        "busbw nccom-test -r 2 allr", "busbw nccom-test -r 2 -b 1kb -e 1mb -f 4 -d fp32 --check allg"
    ),
)
def nccom_test(
    *words: Annotated[
        str, Parameter(allow_leading_hyphen=True, help="An operation and flags of nccom-test.")
    ],
) -> ExitCode:
    """Run a command line of nccom-test (AWS Neuron): its flags, its table, its JSON file."""
    from busbw.foreign.nccom.command import nccom_test as front_door

    return front_door(words, command_line(), sys.stdout, sys.stderr)
