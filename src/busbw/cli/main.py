"""Arguments to commands, errors to exit codes."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Final

from cyclopts import App, CycloptsError, Parameter
from cyclopts.config import Env

from busbw._version import __version__
from busbw.errors import BusbwError, ExitCode, UsageError
from busbw.settings.run import RunSettings

# 128 + SIGPIPE, what a shell reports for a program that the signal ended.
_BROKEN_PIPE: Final = 141

app = App(
    name="busbw",
    help="Measure collective communication on any cluster, and say whether the number is right.",
    version=__version__,
    config=Env("BUSBW_", command=False),
    help_format="plaintext",
)


@app.command
def run(*operations: str, settings: Annotated[RunSettings | None, Parameter(name="*")] = None) -> ExitCode:
    """Measure one or more collectives.

    Under mpirun, srun, torchrun or a Kubernetes index it joins the ranks that are there; otherwise it starts its
    own on this host: one per visible GPU, or CPU ranks over the bundled MPI.

    Examples:

    busbw run all_reduce -b 8 -e 64M -f 2

    busbw run all_gather --ranks 4 -d float -n 200 -c 1

    mpirun -np 64 busbw run all_reduce -b 8 -e 8G -f 2

    Parameters
    ----------
    operations
        all_reduce, all_gather, sendrecv.
    """
    from busbw.cli.run import run as run_command

    return run_command(operations, settings or RunSettings(), tuple(sys.argv))


@app.command
def devices(*, nccl: str = "", format: str = "table") -> ExitCode:  # noqa: A002 (the flag's name)
    """What would be measured here: GPUs, NICs, libraries, and why a backend is not usable.

    Parameters
    ----------
    nccl
        Path of the libnccl.so to ask about.
    format
        table or json.
    """
    from busbw.cli.devices import devices as devices_command

    return devices_command(nccl, format)


@app.command(name="list")
def list_runs(*, format: str = "table", limit: int = 20) -> ExitCode:  # noqa: A002 (the flag's name)
    """Earlier runs, newest first.

    Parameters
    ----------
    format
        table or json.
    limit
        Show no more than this many.
    """
    from busbw.cli.list_runs import list_runs as list_command

    return list_command(format, limit)


@app.command
def show(run: str = "last", *, format: str = "table") -> ExitCode:  # noqa: A002 (the flag's name)
    """Any earlier run, again.

    Parameters
    ----------
    run
        A run's name or the start of it, its folder, or `last`.
    format
        table, csv, json or jsonl.
    """
    from busbw.cli.show import show as show_command

    return show_command(run, format)


def main(argv: list[str] | None = None) -> int:
    """Dispatch; every error becomes one line, a hint, and its exit code."""
    try:
        code = app(argv, exit_on_error=False, print_error=False, result_action="return_value")
        return int(code) if code is not None else 0
    except CycloptsError as error:
        return report(UsageError(str(error), hint="see `busbw run --help`"))
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


def report(error: BusbwError) -> int:
    """Show an error on stderr and give its exit code."""
    place = (
        f"rank {error.rank}{f' on {error.host}' if error.host else ''}: " if error.rank is not None else ""
    )
    print(f"error: {place}{error.message}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)
    return error.exit_code
