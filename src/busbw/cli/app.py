"""The application that commands register with, and what their help and flags share."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence  # cyclopts reads the annotations
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import App, Parameter

from busbw._version import __version__
from busbw.cli.commands import COMMANDS, COMPLETION
from busbw.cli.sources import whole_numbers
from busbw.model.event import Emit
from busbw.plan.flags.flag import Group
from busbw.plan.flags.launch import LaunchSettings
from busbw.plan.flags.run import RunSettings

if TYPE_CHECKING:
    from cyclopts.completion import CompletionContext
    from rich.console import Console

    from busbw.model.finding import Finding


ALL_FLAGS: Final = "--help-all"
FLAGS: Final = Group("Flags", sort_key=5)
SELECTION: Final = (
    "tag:NAME, host:NAME, version:NUMBER, a period (30d, 2026-11-01:, 2026-11-01:2026-11-08), or the start of"
    " a run's name"
)


def run_names(context: CompletionContext) -> list[str]:  # noqa: ARG001 (cyclopts calls it so)
    """What a shell completes for a run."""
    from busbw.record.folder import LAST, environ_home, run_folders

    return [LAST, *(folder.name for folder in run_folders(environ_home()))]


def positional(text: str, **how: Any) -> Parameter:  # noqa: ANN401 (what a Parameter takes)
    """A word of a command line, with its help."""
    return Parameter(help=text, **how)


def flag(text: str, **how: Any) -> Parameter:  # noqa: ANN401
    """A flag that only its command has, with its help."""
    return Parameter(group=FLAGS, help=text, **how)


# Parameters that several commands have.
PRINTED: Final = flag("How to print it.")
_OF_RUN: Final = "A run's name or id, or the start of either, its folder,"
RunName = Annotated[str, positional(f"{_OF_RUN} or `last`.", completer=run_names)]
RunOrLog = Annotated[str, positional(f"{_OF_RUN} a log, or `last`.", completer=run_names)]
TextOrJson = Annotated[Literal["table", "json"], PRINTED]


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


for rows in (*COMMANDS.values(), {"completion": COMPLETION}):
    for name, row in rows.items():
        epilogue = {"help_epilogue": examples(*row.examples, note=row.note)} if row.examples else {}
        app.command(f"busbw.cli.{row.calls}", name=name, help=row.help, **epilogue, **row.how)


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], positional("Whose words.")], /) -> None:
    """Print what a shell completes."""
    print(app.generate_completion(prog_name=app.name[0], shell=shell))


def print_notes(lines: Iterable[str]) -> None:
    """What a user is to know before anything starts."""
    for line in lines:
        print(f"note: {line}", file=sys.stderr)


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


def operations_in(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a command line: ``all_reduce,all_gather`` is two."""
    return tuple(word for text in words for word in text.split(",") if word)
