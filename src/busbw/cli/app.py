"""The application that commands register with, and what their help and flags share."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable  # cyclopts reads the annotations
from inspect import getdoc
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, get_args

from cyclopts import App, Parameter, Token
from cyclopts.config import Env

from busbw._version import __version__
from busbw.cli.preset_values import PresetValues
from busbw.errors import UsageError
from busbw.plan.flags.flag import Group

if TYPE_CHECKING:
    from cyclopts.argument import Argument, ArgumentCollection
    from cyclopts.completion import CompletionContext
    from rich.console import Console
from dataclasses import dataclass
from typing import TYPE_CHECKING

from busbw.model.event import Emit
from busbw.plan.flags.launch import LaunchSettings
from busbw.plan.flags.run import RunSettings

if TYPE_CHECKING:
    from busbw.model.finding import Finding


ALL_FLAGS: Final = "--help-all"
FLAGS: Final = Group("Flags", sort_key=5)
RUN_NAME: Final = "A run's name or id, or the start of either, its folder, or `last`."
SELECTION: Final = (
    "tag:NAME, host:NAME, version:NUMBER, a period (30d, 2026-11-01:, 2026-11-01:2026-11-08), or the start of"
    " a run's name"
)
RUN_OR_LOG: Final = "A run's name or id, or the start of either, its folder, a log, or `last`."


def run_names(context: CompletionContext) -> list[str]:  # noqa: ARG001 (cyclopts calls it so)
    """What a shell completes for a run."""
    from busbw.record.folder import LAST, environ_home, run_folders

    return [LAST, *(folder.name for folder in run_folders(environ_home()))]


def word(text: str, **how: Any) -> Parameter:  # noqa: ANN401 (what a Parameter takes)
    """A word of a command line, with its help."""
    return Parameter(help=text, **how)


def flag(text: str, **how: Any) -> Parameter:  # noqa: ANN401
    """A flag that only its command has, with its help."""
    return Parameter(group=FLAGS, help=text, **how)


# Parameters that several commands have.
PRINTED: Final = flag("How to print it.")
RunName = Annotated[str, word(RUN_NAME, completer=run_names)]
RunOrLog = Annotated[str, word(RUN_OR_LOG, completer=run_names)]
TextOrJson = Annotated[Literal["table", "json"], PRINTED]


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


_BROKEN: Final = re.compile(r"[+-]?\d*\.\d*")


def whole_numbers(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:  # noqa: ARG001 (cyclopts calls it so)
    """Refuse a broken number for an integer, wherever it was written: cyclopts takes 1.5 and rounds it,
    without a word. Runs behind every other source.
    """
    for argument in arguments:
        is_whole = argument.hint is int or int in get_args(argument.hint)
        for token in argument.tokens if is_whole else ():
            if _BROKEN.fullmatch(token.value):
                raise UsageError(
                    f"{token.keyword or argument.name} takes a whole number, not {token.value}",
                    hint=f"write {token.value.partition('.')[0] or 0}, or another whole number",
                )


# Where flags of a run come from when the command line does not have them.
OF_A_RUN: Final = (Variables("BUSBW_", command=False, show=False), PresetValues(), whole_numbers)
# A hunt has one size, which the sweep of a preset is not.
OF_A_HUNT: Final = (OF_A_RUN[0], PresetValues(leave_out=("--minbytes",)), whole_numbers)


def command_line() -> tuple[str, ...]:
    """The command line that a record keeps: what was typed, secrets replaced."""
    from busbw.redact import redact_words

    return redact_words(sys.argv)


def examples(*lines: str, note: str = "") -> str:
    """The end of a help page."""
    return "\n".join(("Examples:", *(f"  {line}" for line in lines), *(("", note) if note else ())))


class CleanApp(App):
    """Its help pages are those of ``cli.help``, coloured as all else is."""

    @property  # type: ignore[misc]  # nobody sets it
    def console(self) -> Console:
        """Made when help is shown."""
        from busbw.report.console import CleanConsole

        return CleanConsole()

    def help_print(
        self,
        tokens: Annotated[str | Iterable[str] | None, Parameter(show=False)] = None,
        *,
        console: Annotated[Any, Parameter(parse=False)] = None,  # noqa: ANN401 (cyclopts reads it)
        whole: Annotated[bool, Parameter(parse=False)] = False,
    ) -> None:
        """Print the help of the command that ``tokens`` name; ``whole``: with all of its flags."""
        from busbw.cli.help import page

        chain, apps, _ = self.parse_commands(tokens)
        (console or self.console).print(page(chain, apps[-1], whole=whole), highlight=False)


app = CleanApp(
    name="busbw",
    help="Measure collective communication on any cluster, and say whether the number is right.",
    version=__version__,
    help_format="plaintext",
    config=whole_numbers,
    suppress_keyboard_interrupt=False,  # it would leave without a word
    help_epilogue=examples(
        "busbw devices",
        "busbw run all_reduce -b 8 -e 64M -f 2",
        "busbw show last",
        note="`busbw COMMAND --help` shows a command's flags. `busbw completion bash` (zsh, fish) completes"
        " them.",
    ),
)


_F = TypeVar("_F", bound=Callable[..., Any])


def command(*lines: str, of: App = app, note: str = "", **how: Any) -> Callable[[_F], _F]:  # noqa: ANN401
    """Make a function a command: its docstring is the help, ``lines`` are examples, ``how`` is for App."""

    def register(function: _F) -> _F:
        # One string a paragraph: the page wraps them to the terminal.
        paragraphs = (" ".join(each.split()) for each in (getdoc(function) or "").split("\n\n"))
        epilogue = examples(*lines, note=note) if lines else None
        of.command(function, help="\n\n".join(paragraphs), help_epilogue=epilogue, **how)
        return function

    return register


# ---- a command line that measures, as it was read -----------------------------------------------------


@dataclass(frozen=True)
class RunCommand:
    """What is to be measured, how and where; ``argv`` are the words that were typed, for the record. ``hear``
    gets every event that is shown. ``before`` was found earlier, and belongs into the record where this
    process starts the ranks.
    """

    operations: tuple[str, ...]
    settings: RunSettings
    launch: LaunchSettings
    argv: tuple[str, ...]
    hear: Emit = lambda item: None
    before: tuple[Finding, ...] = ()
