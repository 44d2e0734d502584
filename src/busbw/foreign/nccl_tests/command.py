"""``busbw nccl-tests PROGRAM FLAGS``: a line of nccl-tests, measured by busbw.

nccl-tests drives processes x threads x GPUs ranks; here each rank is a process of its own. Started alone,
this process starts threads x GPUs ranks on its host; under a launcher it joins, as one rank, or starts its
ranks beside itself where they are several (``processes``).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from busbw.errors import BusbwError, ExitCode, UnknownWord, UsageError
from busbw.foreign.nccl_tests.flags import FAILED, PROGRAMS, Line, find_program, read, read_variables, usage
from busbw.foreign.nccl_tests.processes import failed_alone, of_several, start_ranks, starts_ranks
from busbw.rank.world.identity import identify

if TYPE_CHECKING:
    from busbw.model.event import Emit
    from busbw.rank.world.identity import Identity


def nccl_tests(words: Sequence[str], argv: tuple[str, ...]) -> int:
    """Run a line, ``words`` from the program's name on; gives the exit status: nccl-tests' own where it has
    one, else busbw's exit code.

    Raises BusbwError for everything that ends it before it starts.
    """
    line = _read(words)
    if line.wants_help:
        print(usage(line.program))
        return ExitCode.OK
    identity = identify(os.environ)
    if identity is not None and starts_ranks(identity, line):
        return start_ranks(identity, line, words)
    variables = read_variables(os.environ)
    from busbw.foreign.nccl_tests import lead

    measured = (line, variables, words, argv)
    status = lead.start(*measured) if identity is None else lead.join(identity, *measured)
    from busbw.judge.kept import fill  # it needs numpy, and no rank waits for that

    fill()
    return status


def follow(identity: Identity, words: Sequence[str], report: Emit) -> int:
    """Be a rank other than 0. It reads the line as rank 0 does, so that all of them leave where it cannot be
    run, and one of them says why.
    """
    from busbw.rank.entry import follow as live

    try:
        line = _read(words)
        if line.wants_help:
            return ExitCode.OK
        if starts_ranks(identity, line):
            try:
                return start_ranks(identity, line, words)
            except BusbwError as error:
                return failed_alone(identity, error)
        read_variables(os.environ)
    except BusbwError as error:
        return int(error.exit_code)
    code = live(of_several(identity, line)[0], [line.program], report)
    return FAILED if code == ExitCode.BAD_VERDICT else code


def _read(words: Sequence[str]) -> Line:
    """Raises UsageError where the first word names no test."""
    if not words:
        raise UsageError("no test given", hint=f"name one of: {', '.join(PROGRAMS)}")
    program = find_program(words[0])
    if not program:
        raise UnknownWord(f"nccl-tests has no test {words[0]!r}", words[0], PROGRAMS)
    return read(program, words[1:])
