"""A preset's variables where somebody's launcher started the ranks: they are the launcher's to set. What a
user typed is refused where the ranks lack it; what a preset sets is told, and the run goes on.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from busbw.cli.preset_values import overridden, presets_of
from busbw.errors import UsageError
from busbw.launchers.variables import LIBRARIES, lacking, read_variables
from busbw.probes.redact import redact

if TYPE_CHECKING:
    from busbw.settings.launch import LaunchSettings
    from busbw.settings.preset import Preset

_BY: Final = "mpirun -x K=V, mpiexec -genv K V, srun --export=ALL,K=V"


def lines_for_joined(launch: LaunchSettings, here: Mapping[str, str], launcher: str) -> tuple[str, ...]:
    """What to tell of the presets' variables; ``here`` are those of this rank. Raises UsageError for typed
    ones that it lacks.
    """
    presets = presets_of(launch.preset)
    typed = _typed(launch, presets)
    if lost := lacking(typed, here):
        flag = _flag(typed, lost)
        raise UsageError(
            f"{flag} {', '.join(lost)} cannot reach the ranks that {launcher} started",
            hint=f"give the variables to the launcher ({_BY}), or use --on",
        )
    by_preset: dict[str, list[str]] = {}
    for name, value in lacking(launch, here).items():
        owner = _owner(presets, name, value)
        by_preset.setdefault(owner, []).append(f"{name}={shlex.quote(redact(name, value))}")
    # Nothing takes the place of what these ranks have.
    return (*overridden(presets, "", typed.env, {}), *_lines(by_preset, launcher))


def _lines(by_preset: Mapping[str, Sequence[str]], launcher: str) -> Iterator[str]:
    for name, words in by_preset.items():
        lost = f"the launcher ({launcher}) has not set {' '.join(words)}"
        yield f"preset {name}: {lost}, and the run goes on without; give it what is to hold ({_BY})"


def _typed(launch: LaunchSettings, presets: Sequence[Preset]) -> LaunchSettings:
    """Less what presets say: their words of --env stand before the user's, their folders behind."""
    of_presets = sum(len(preset.environ("")) for preset in presets)
    folders = sum(len(preset.library_path) for preset in presets)
    files = [preset.launch_values("").get("env_file") for preset in presets]
    return replace(
        launch,
        env=launch.env[of_presets:],
        library_path=launch.library_path[: len(launch.library_path) - folders],
        env_file=None if str(launch.env_file) in files else launch.env_file,
    )


def _flag(typed: LaunchSettings, lost: Mapping[str, str]) -> str:
    """The flag that says what is lost."""
    if lost.keys() & read_variables(typed.env, None).keys():
        return "--env"
    return "--env-file" if lost.keys() & read_variables((), typed.env_file).keys() else "--library-path"


def _owner(presets: Sequence[Preset], name: str, value: str) -> str:
    """The preset on top that says a variable, in its file of variables where in no other way."""
    top_first = presets[::-1]
    saying = [preset for preset in top_first if preset.environ("").get(name) == value]
    if name == LIBRARIES:
        saying += [preset for preset in top_first if preset.library_path]
    saying += [preset for preset in top_first if "env_file" in preset.launch_values("")]
    return saying[0].name
