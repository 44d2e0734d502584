"""Words to commands, errors to exit codes."""

from __future__ import annotations

import errno
import os
import re
import sys
from itertools import pairwise
from typing import Final

from cyclopts import CycloptsError, MissingArgumentError

from busbw.cli.app import app

# Importing any of the commands registers all of them.
from busbw.cli.commands.foreign import NCCL_TESTS, nccl_tests
from busbw.errors import BusbwError, ExitCode, SiteError, UsageError

# 128 + SIGPIPE, what a shell reports for a program that the signal ended.
_BROKEN_PIPE: Final = 141


def main(argv: list[str] | None = None) -> int:
    """Dispatch; every error becomes one line, a hint, and its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        if arguments[:1] == [NCCL_TESTS] and arguments[1:] not in ([], ["-h"], ["--help"]):
            return nccl_tests(*arguments[1:])  # its flags are not ours: -h, --version and -- are its own
        code = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        return int(code) if code is not None else 0
    except CycloptsError as error:
        if isinstance(error, MissingArgumentError) and (negative := _negative(str(error), arguments)):
            return _refuse(negative, arguments)
        command = " ".join(("busbw", *(error.command_chain or ())))
        return _refuse(UsageError(str(error), hint=f"see `{command} --help`"), arguments)
    except UsageError as error:  # before any rank was joined: from then on ranks agree on errors
        return _refuse(error, arguments)
    except BusbwError as error:
        return report(error)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except (
        BrokenPipeError
    ):  # the reader of our output has left (`| head`); the interpreter must not say so again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        where = f"cannot write {error.filename or 'a file'}: {error.strerror}"
        return report(SiteError(where, hint="free space there, or set BUSBW_HOME to a folder elsewhere"))


def _negative(message: str, arguments: list[str]) -> UsageError | None:
    """What to say of `--budget -5s`: its value starts as a flag does, and no such amount is below zero."""
    for flag, value in pairwise(arguments):
        if flag in message.split() and re.match(r"-\.?\d", value):
            return UsageError(
                f"{flag}: {value!r} must be positive", hint=f"leave out the -: {flag} {value[1:]}"
            )
    return None


def _refuse(error: UsageError, arguments: list[str]) -> int:
    """Words that cannot be understood. Under a launcher the other ranks of a run wait to be told so."""
    if arguments[:1] in (["run"], ["preflight"], ["isolate"], ["pairs"], ["rails"]):
        from busbw.cli.run import refuse
        from busbw.worker.follower import world_choice

        try:
            return refuse(error, world_choice(arguments))
        except BusbwError as alone:
            return report(alone)
    return report(error)


def report(error: BusbwError) -> int:
    """Show an error on stderr and give its exit code."""
    place = (
        f"rank {error.rank}{f' on {error.host}' if error.host else ''}: " if error.rank is not None else ""
    )
    print(f"error: {place}{error.message}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)
    return error.exit_code
