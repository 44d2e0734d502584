"""The application that commands register with, and what their help and flags share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Literal

from cyclopts import App, Group, Token
from cyclopts.config import Env

from busbw._version import __version__
from busbw.cli.of_hunts import of_hunts
from busbw.cli.preset_values import PresetValues
from busbw.cli.whole_numbers import counts, whole_numbers

if TYPE_CHECKING:
    from cyclopts.argument import Argument, ArgumentCollection

TextOrJson = Literal["table", "json"]
FLAGS: Final = Group("Flags", sort_key=5)
RUN_NAME: Final = "A run's name or the start of it, its folder, or `last`."
RUN_OR_LOG: Final = "A run's name or the start of it, its folder, a log, or `last`."


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


# Where flags of a run come from when the command line does not have them.
OF_A_RUN: Final = (Variables("BUSBW_", command=False, show=False), PresetValues(), whole_numbers, counts)
OF_A_HUNT: Final = (OF_A_RUN[0], PresetValues(), of_hunts, whole_numbers, counts)


def examples(*lines: str, note: str = "") -> str:
    """The end of a help page."""
    return "\n".join(("Examples:", *(f"  {line}" for line in lines), *(("", note) if note else ())))


app = App(
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
        note="`busbw COMMAND --help` lists a command's flags.",
    ),
)
