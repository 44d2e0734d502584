"""Words to commands, errors to exit codes."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Final

from cyclopts import CycloptsError

from busbw.cli.app import ALL_FLAGS, app, command_line
from busbw.cli.commands import NCCL_TESTS
from busbw.cli.mistakes import understood, with_command
from busbw.errors import BusbwError, ExitCode, SiteError, UsageError, of_system
from busbw.plan.request import is_request, read_request
from busbw.terminal import screens

# 128 + SIGPIPE, what a shell reports for a program that the signal ended.
_BROKEN_PIPE: Final = 141
_LEAST_COLUMNS: Final = 20  # in fewer no table can be drawn, and drawing never ends


def main(argv: list[str] | None = None) -> int:
    """Dispatch; every error becomes one line, a hint, and its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    _settle_output()
    try:
        with screens():
            return _main(arguments)
    finally:
        # What a closed terminal did not take is dropped: the interpreter would end with a code of its own.
        for stream in filter(None, (sys.stdout, sys.stderr)):
            try:
                stream.flush()
            except OSError as error:
                if error.errno == errno.EIO:
                    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _main(arguments: list[str]) -> int:
    try:
        return _dispatch(arguments)
    except CycloptsError as error:
        return _refuse(understood(error, arguments), arguments)
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
        return report(of_system(error))
    except MemoryError:
        return report(SiteError("there is not enough memory", hint="free some, or raise `ulimit -v`"))


def _settle_output() -> None:
    """Letters that the terminal lacks are printed as escapes; a width that cannot be is not taken."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    columns = os.environ.get("COLUMNS", "")
    if columns and not (columns.isascii() and columns.isdecimal() and int(columns) >= _LEAST_COLUMNS):
        del os.environ["COLUMNS"]


def _dispatch(arguments: list[str]) -> int:
    if arguments[:1] == [NCCL_TESTS] and arguments[1:] not in ([], ["-h"], ["--help"], [ALL_FLAGS]):
        from busbw.cli.drop_ins import nccl_tests

        return nccl_tests(*arguments[1:])  # its flags are not ours: -h, --version and -- are its own
    if is_request(arguments):
        # Be rank 0 of a job of ours, whose settings were read by the front process.
        from busbw.cli.run import run_delivered
        from busbw.rank.entry import world_choice

        return run_delivered(*read_request(arguments), command_line(), world_choice(arguments))
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if ALL_FLAGS in own:
        app.help_print([word for word in own if word != ALL_FLAGS], whole=True)
        return 0
    code = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    return int(code) if code is not None else 0


def _refuse(error: UsageError, arguments: list[str]) -> int:
    """Words that cannot be understood. Under a launcher the other ranks of a run wait to hear so."""
    error = with_command(error, arguments)
    if arguments[:1] in (["run"], ["check"], ["soak"], ["preflight"], ["isolate"], ["pairs"], ["rails"]):
        from busbw.cli.run import refuse
        from busbw.rank.entry import world_choice

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
