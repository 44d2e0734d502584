"""Command lines of other tools, word by word."""

from __future__ import annotations

from typing import Annotated, Final

from cyclopts import Parameter

from busbw.cli.app import app, examples
from busbw.cli.command_line import command_line
from busbw.errors import ExitCode

NCCL_TESTS: Final = "nccl-tests"

NCCL_TESTS_HELP: Final = (
    "A command line of nccl-tests, with its flags, table, JSON file and exit status.\n\n"
    "Ranks are processes x threads x GPUs, each a process of its own. `busbw nccl-tests all_reduce_perf -h`"
    " lists the flags."
)
NCCL_TESTS_EXAMPLES: Final = (
    "busbw nccl-tests all_reduce_perf -b 8 -e 8G -f 2 -g 8",
    "mpirun -np 64 busbw nccl-tests alltoall_perf -b 8 -e 1G -f 2 -g 1",
    "NCCL_TESTS_MIN_BW=400 busbw nccl-tests all_reduce_perf -b 8G -e 8G -g 8",
)


@app.command(name=NCCL_TESTS, help=NCCL_TESTS_HELP, help_epilogue=examples(*NCCL_TESTS_EXAMPLES))
def nccl_tests(
    *words: Annotated[
        str, Parameter(allow_leading_hyphen=True, help="The test, as all_reduce_perf, and its flags.")
    ],
) -> int:
    """Only its help is asked for here: ``main`` takes the words as they are."""
    from busbw.cli.nccl_tests import nccl_tests as nccl_tests_command

    return nccl_tests_command(words, command_line())


NCCOM_EXAMPLES: Final = (
    "busbw nccom-test -r 2 allr",
    "busbw nccom-test -r 2 -b 1kb -e 1mb -f 4 -d fp32 --check allg",
)


@app.command(
    name="nccom-test",
    # The whole command line is nccom-test's, its help too.
    help_flags=[],
    version_flags=[],
    help_epilogue=examples(*NCCOM_EXAMPLES),
)
def nccom_test(
    *words: Annotated[
        str, Parameter(allow_leading_hyphen=True, help="An operation and flags of nccom-test.")
    ],
) -> ExitCode:
    """The command line of nccom-test (AWS Neuron): its flags, its table, its JSON file."""
    from busbw.cli.nccom_test import nccom_test as nccom_command

    return nccom_command(words, command_line())
