"""Whole numbers as they were meant: cyclopts takes 1.5 for an integer and rounds it, without a word, and
engines would take 0 for a number that was not said.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, get_args

from busbw.errors import UsageError

if TYPE_CHECKING:
    from cyclopts import App
    from cyclopts.argument import Argument, ArgumentCollection

_BROKEN: Final = re.compile(r"[+-]?\d*\.\d*")
_LESS_THAN_ONE: Final = re.compile(r"-\d+|[+-]?0+")
_COUNTS: Final = ("--ranks", "--ranks-per-node", "--segment")


def whole_numbers(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:  # noqa: ARG001 (cyclopts calls it so)
    """Refuse a broken number for an integer, wherever it was written. Runs behind every other source."""
    for argument in arguments:
        for token in argument.tokens if _is_whole(argument) else ():
            if _BROKEN.fullmatch(token.value):
                raise UsageError(
                    f"{token.keyword or argument.name} takes a whole number, not {token.value}",
                    hint=f"write {token.value.partition('.')[0] or 0}, or another whole number",
                )


def counts(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:  # noqa: ARG001
    """Refuse less than one of what every engine takes, and none can have none of."""
    for argument in arguments:
        for token in argument.tokens if argument.name in _COUNTS else ():
            if _LESS_THAN_ONE.fullmatch(token.value.strip()):
                raise UsageError(
                    f"{token.keyword or argument.name} {token.value} is too small", hint="give 1 or more"
                )


def _is_whole(argument: Argument) -> bool:
    return argument.hint is int or int in get_args(argument.hint)
