"""Flags that a hunt takes, of those of a run: any other would be dropped without a word.

Runs behind flags, variables and presets. What those set for every command is no mistake of this one: a hunt
leaves out the sweep of a preset, and a variable that it has no use for.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Final

from busbw.errors import UsageError
from busbw.settings.preflight import PreflightSettings
from busbw.settings.run import RunSettings

if TYPE_CHECKING:
    from cyclopts import App, Token
    from cyclopts.argument import Argument, ArgumentCollection

_GIVEN: Final = "cli"  # cyclopts' word for a source
_VARIABLE: Final = "env"
_TAKEN: Final = {
    *(each.name for each in fields(PreflightSettings)),
    *("minbytes", "seed", "hot", "pin"),
    *("ranks", "backend", "world", "nccl", "parallel_init"),
    *("format", "dry_run", "deliver"),
}
_OF_RUNS: Final = {each.name for each in fields(RunSettings)} - _TAKEN
_SIMULATED: Final = {"simulate", "bad", "noise", "hunts", "per_switch", "farther", "hidden"}
_WITH_SIMULATE: Final = {*_SIMULATED, "loss", "slower", "rounds", "seed", "format"}
_BEFORE: Final = {"each_nic", "doubt", "prior"}
_JUDGES: Final = {  # flags of how it is judged that a command has no use for
    "pairs": {"loss", "slower", "rounds", *_BEFORE},
    "rails": {"slower", "rounds", *_BEFORE},
}
_OF_PAIRS: Final = {"halves"}
_INSTEAD: Final = {
    "maxbytes": "give one size, -b 64M",
    "timeout": "give --round-timeout",
    "launches": "start it again for another verdict",
}


def of_hunts(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:  # noqa: ARG001 (cyclopts calls it so)
    """Refuse what was given and would not be looked at. Raises UsageError."""
    simulates = any(argument.tokens for argument in arguments if _name(argument) == "simulate")
    for argument in arguments:
        name = _name(argument)
        if name in _OF_RUNS:
            _refuse(
                commands,
                argument,
                _INSTEAD.get(name, "leave it out: a hunt has one size and samples of its own"),
            )
            argument.tokens.clear()
        elif simulates and name not in _WITH_SIMULATE:
            _refuse((*commands, "--simulate"), argument, "leave it out: nothing is started")
        elif name in _OF_PAIRS and commands[0] != "pairs":
            _refuse(commands, argument, "leave it out, or give it to `busbw pairs`")
        elif name in _JUDGES.get(commands[0], ()):
            _refuse(commands, argument, "leave it out: nothing is judged by it; `busbw isolate` does")
        elif not simulates and name in _SIMULATED:
            _refuse(commands, argument, "add --simulate 64, for so many parts: else a real hunt is started")
        if name == "minbytes":
            argument.tokens[:] = [token for token in argument.tokens if token.source in (_GIVEN, _VARIABLE)]


def _name(argument: Argument) -> str:
    return argument.name.removeprefix("--").replace("-", "_")


def _refuse(commands: tuple[str, ...], argument: Argument, hint: str) -> None:
    given: list[Token] = [token for token in argument.tokens if token.source == _GIVEN]
    if given:
        words = " ".join(filter(None, (given[0].keyword or argument.name, given[0].value)))
        raise UsageError(f"{words} says nothing to `busbw {' '.join(commands)}`", hint=hint)
