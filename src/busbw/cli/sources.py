"""Where flags come from that the command line does not have: ``BUSBW_*`` variables and presets."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, get_args

from cyclopts import Token
from cyclopts.config import Env

from busbw.cli.preset_values import PresetValues
from busbw.errors import UsageError

if TYPE_CHECKING:
    from cyclopts import App
    from cyclopts.argument import Argument, ArgumentCollection


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
# Any command of `busbw exec` has the place of a preset, and no variables of ours.
OF_ANY_COMMAND: Final = OF_A_RUN[1:]
