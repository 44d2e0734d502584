"""Arguments to commands, errors to exit codes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import App, CycloptsError, Group, Parameter, Token
from cyclopts.config import Env

from busbw._version import __version__
from busbw.errors import BusbwError, ExitCode, UsageError
from busbw.model.collective import COLLECTIVES
from busbw.settings.run import FormatName, RunSettings

if TYPE_CHECKING:
    from cyclopts.argument import Argument, ArgumentCollection

# 128 + SIGPIPE, what a shell reports for a program that the signal ended.
_BROKEN_PIPE: Final = 141


class Variables(Env):
    """Every flag of ``run`` as BUSBW_ and its name.

    Cyclopts' own Env would take BUSBW_ROOT, which is the address where ranks meet, for --root.
    """

    _ELSEWHERE: Final = {"BUSBW_ROOT": "BUSBW_ROOT_RANK"}

    def _convert_argument(self, commands: tuple[str, ...], argument: Argument) -> str:
        name = super()._convert_argument(commands, argument)
        return self._ELSEWHERE.get(name, name)

    def __call__(self, app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
        """Fill in what the command line left open."""
        for argument in arguments:
            variable = self._convert_argument(commands, argument)
            if variable in os.environ and argument.parse and not argument.tokens:
                argument.append(Token(keyword=variable, value=os.environ[variable], source="env"))


def _examples(*lines: str, note: str = "") -> str:
    return "\n".join(("Examples:", *(f"  {line}" for line in lines), *(("", note) if note else ())))


# One string a paragraph: the help page wraps them to the terminal, but keeps a docstring's line ends.
RUN_HELP: Final = (
    "Measure one or more collectives.\n\n"
    "Under mpirun, srun, torchrun or a Kubernetes index it joins the ranks that are there. Otherwise it"
    " starts its own on this host: one per visible GPU, or CPU ranks over the bundled MPI."
)
RUN_EXAMPLES: Final = (
    "busbw run all_reduce -b 8 -e 64M -f 2",
    "busbw run all_gather --ranks 4 -d float -n 200 -c 1",
    "busbw run all_reduce,sendrecv -e 1M --format csv",
    "mpirun -np 64 busbw run all_reduce -b 8 -e 8G -f 2",
)
DEVICES_EXAMPLES: Final = (
    "busbw devices",
    "busbw devices --nccl /opt/nccl/lib --format json",
)
LIST_EXAMPLES: Final = ("busbw list", "busbw list --limit 3 --format json")
SHOW_EXAMPLES: Final = ("busbw show", "busbw show last --format csv", "busbw show 20261121-1815")

TextOrJson = Literal["table", "json"]
_FLAGS: Final = Group("Flags", sort_key=5)

app = App(
    name="busbw",
    help="Measure collective communication on any cluster, and say whether the number is right.",
    version=__version__,
    help_format="plaintext",
    suppress_keyboard_interrupt=False,  # it would leave without a word
    help_epilogue=_examples(
        "busbw devices",
        "busbw run all_reduce -b 8 -e 64M -f 2",
        "busbw show last",
        note="`busbw COMMAND --help` lists a command's flags.",
    ),
)


@app.command(
    help=RUN_HELP,
    config=Variables("BUSBW_", command=False, show=False),
    help_epilogue=_examples(
        *RUN_EXAMPLES, note="Each flag can also be set by a variable: --minbytes by BUSBW_MINBYTES."
    ),
)
def run(
    *operations: Annotated[
        str, Parameter(help=f"What to measure: {', '.join(row.name for row in COLLECTIVES)}.")
    ],
    settings: Annotated[RunSettings | None, Parameter(name="*")] = None,
) -> ExitCode:
    """Measure one or more collectives."""
    from busbw.cli.run import run as run_command

    words = tuple(word for text in operations for word in text.split(",") if word)
    return run_command(words, settings or RunSettings(), tuple(sys.argv))


@app.command(help_epilogue=_examples(*DEVICES_EXAMPLES))
def devices(
    *,
    nccl: Annotated[
        str, Parameter(group=_FLAGS, show_default=False, help="Ask about this libnccl.so (or its folder).")
    ] = "",
    format: Annotated[TextOrJson, Parameter(group=_FLAGS, help="How to print it.")] = "table",  # noqa: A002
) -> ExitCode:
    """What would be measured here: GPUs, NICs, libraries, and why a backend is not usable."""
    from busbw.cli.devices import devices as devices_command

    return devices_command(nccl, format)


@app.command(name="list", help_epilogue=_examples(*LIST_EXAMPLES))
def list_runs(
    *,
    format: Annotated[TextOrJson, Parameter(group=_FLAGS, help="How to print it.")] = "table",  # noqa: A002
    limit: Annotated[int, Parameter(group=_FLAGS, help="Show no more than this many.")] = 20,
) -> ExitCode:
    """Earlier runs, newest first."""
    from busbw.cli.list_runs import list_runs as list_command

    return list_command(format, limit)


@app.command(help_epilogue=_examples(*SHOW_EXAMPLES))
def show(
    run: Annotated[str, Parameter(help="A run's name or the start of it, its folder, or `last`.")] = "last",
    /,
    *,
    format: Annotated[FormatName, Parameter(group=_FLAGS, help="How to print it.")] = "table",  # noqa: A002
) -> ExitCode:
    """Any earlier run, again."""
    from busbw.cli.show import show as show_command

    return show_command(run, format)


def main(argv: list[str] | None = None) -> int:
    """Dispatch; every error becomes one line, a hint, and its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        code = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        return int(code) if code is not None else 0
    except CycloptsError as error:
        command = " ".join(("busbw", *(error.command_chain or ())))
        return _refuse(UsageError(str(error), hint=f"see `{command} --help`"), arguments)
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


def _refuse(error: UsageError, arguments: list[str]) -> int:
    """Words that cannot be understood. Under a launcher the other ranks of a run wait to be told so."""
    if arguments[:1] == ["run"]:
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
