"""``busbw nccl-tests``: the command lines of nccl-tests."""

from __future__ import annotations

from busbw.errors import UsageError


def nccl_tests(words: tuple[str, ...], argv: tuple[str, ...]) -> int:
    """Run ``PROGRAM FLAGS`` as nccl-tests would; gives the exit status. Raises BusbwError for what cannot be
    started.
    """
    from busbw.frontdoors.nccl_tests import nccl_tests as front_door
    from busbw.frontdoors.nccl_tests_flags import PROGRAMS, find_program

    program = words[0] if words else ""
    if not find_program(program):
        raise UsageError(
            f"no test of nccl-tests: {program!r}" if program else "no test given",
            hint=f"name one of: {', '.join(PROGRAMS)}",
        )
    return front_door(words, argv)
