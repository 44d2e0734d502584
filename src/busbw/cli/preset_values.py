"""A preset's values under the flags: what neither the command line nor a variable says comes from --preset.

Runs after the flags and ``BUSBW_*`` were read and before defaults apply. Lists (--env, --set) are put before
the user's own words, so those win; folders (--library-path) behind them, since there the first wins. A user's
own preset wins over one that busbw ships, wherever it stands; of two of the same kind the last one does.
Where somebody's launcher started the ranks, variables are the launcher's to set (``lines_for_joined``).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cyclopts import Token

from busbw.errors import UsageError
from busbw.launch.settle import PBS_NODES
from busbw.launch.variables import LIBRARIES, lacking
from busbw.plan.flags.flag import flag_of
from busbw.plan.flags.launch import OF_NEW_JOB, LaunchSettings
from busbw.plan.presets.preset import Preset, read_preset
from busbw.record.folder import user_folder
from busbw.redact import redact

if TYPE_CHECKING:
    from cyclopts import App
    from cyclopts.argument import Argument, ArgumentCollection


FILES_VARIABLE: Final = "BUSBW_PRESET_FILES"
_LISTS: Final = ("--env", "--set", "--expect-use")
# The first word wins: a plugin's folder must not be lost to somebody who adds that of another NCCL.
_PATHS: Final = ("--library-path",)
# Engines whose ranks get variables of the shell that submits; "" is this host.
_INHERITING: Final = ("", "slurm")
# `busbw exec` runs any command: a vendor's tool too.
_ANY_TOOL: Final = ("exec",)
_BY: Final = "mpirun -x K=V, mpiexec -genv K V, srun --export=ALL,K=V"
# A flag of the ranks' place -> the other words on it in which a preset then has no say.
_HOSTS: Final = ("--hosts", "--hostfile", "--nodes")
_INSTEAD: Final = {
    "--nodes": ("--ranks",),
    "--ranks-per-node": ("--ranks",),
    "--ranks": ("--ranks-per-node",),
    "--hosts": _HOSTS,
    "--hostfile": _HOSTS,
}
# Keys of --set that say such a flag.
_IN_SET: Final = {"replicas": "--nodes", "slots": "--ranks-per-node", "np": "--ranks"}


def user_files() -> tuple[Path, ...]:
    """Users' own preset files: those named by BUSBW_PRESET_FILES (separated by colons), else *.yaml in
    busbw/presets of the XDG configuration folder.
    """
    if chosen := os.environ.get(FILES_VARIABLE):
        return tuple(Path(word) for word in chosen.split(":") if word)
    config = user_folder(os.environ, "XDG_CONFIG_HOME", ".config")
    return tuple(sorted(Path(config, "busbw", "presets").glob("*.yaml")))


class PresetValues:
    """A source of arguments, as cyclopts wants it. It has nothing for those of ``leave_out``."""

    def __init__(self, leave_out: Collection[str] = ()) -> None:
        self._leave_out = leave_out

    def __call__(self, app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
        """Fill in what is still open. Raises UsageError for a preset that is not there or not well formed."""
        by_name = {argument.name: argument for argument in arguments if argument.name not in self._leave_out}
        chosen = by_name.get("--preset")
        if chosen is None or not chosen.tokens:
            return
        presets = presets_of(token.value for token in chosen.tokens)
        # The engine that the user names, else the one that a preset names: all sections of it count. Empty
        # for this host, and for a command that knows no engines.
        on, engine = by_name.get("--on"), ""
        if on is not None and on.tokens:
            engine = on.tokens[-1].value
        elif on is not None:
            engine = next((preset.engine for preset in reversed(presets) if preset.engine), "")
        for preset in presets:
            _refuse_unusable(preset, commands)
        env = by_name.get("--env")
        said = [token.value for token in env.tokens] if env is not None else []
        _put(by_name, "--presets-used", [f"{p.name.partition('@')[0]}@{p.date}" for p in presets])
        lines = list(overridden(presets, engine, said, os.environ))
        for preset in reversed(presets):
            lines += fill(by_name, preset, engine)
        _put(by_name, "--overridden", lines)


def presets_of(names: Iterable[str]) -> list[Preset]:
    """The presets that were chosen, that on top last. Raises UsageError for one that is not there."""
    presets = [read_preset(name, user_files()) for name in names]
    return sorted(presets, key=lambda preset: not preset.shipped)


def overridden(
    presets: Sequence[Preset], engine: str, said: Sequence[str], inherited: Mapping[str, str]
) -> Iterator[str]:
    """A line for each variable of the presets (the lowest first) that has another value elsewhere: which one
    holds, and what it took the place of. ``said`` are the words of --env.
    """
    layers: list[tuple[str, Mapping[str, str]]] = []
    if engine in _INHERITING:
        layers.append(("this shell's", inherited))
    layers += [(f"preset {preset.name}'s", preset.environ(engine)) for preset in presets]
    layers.append(("--env's", dict(word.partition("=")[::2] for word in said)))
    for name in dict.fromkeys(name for preset in presets for name in preset.environ(engine)):
        values = [(whose, environ[name]) for whose, environ in layers if name in environ]
        *below, (whose, value) = values
        others = [f"{their} {redact(name, other) or '(empty)'}" for their, other in below if other != value]
        if others:
            yield f"{name}={redact(name, value)}, {whose}, replaces {' and '.join(others)}"


def _refuse_unusable(preset: Preset, commands: tuple[str, ...]) -> None:
    """Raises UsageError for a preset that only exists to be extended, and for one of another tool: ranks of
    this host would measure memory of CPUs where it means accelerators.
    """
    if preset.is_abstract:
        name = preset.name.partition("@")[0]
        hint = "use one that extends it (`busbw presets list`), or write your own"
        raise UsageError(f"preset {name} is abstract: other presets extend it", hint=hint)
    if preset.tool and commands != _ANY_TOOL:
        raise UsageError(
            f"preset {preset.name} needs another tool: `busbw {' '.join(commands)}` cannot use its devices",
            hint=f"use `busbw {preset.tool}` on such a node; the sweep: busbw presets show {preset.name}",
        )


def fill(by_name: dict[str, Argument], preset: Preset, engine: str) -> list[str]:
    """Give one preset's values to the arguments that have none; lines on what of its place is left out."""
    values: dict[str, list[str]] = {"--env": [f"{k}={v}" for k, v in preset.environ(engine).items()]}
    values["--expect-use"] = list(preset.expects)
    is_step = bool((job := by_name.get("--job-id")) is not None and job.tokens)
    said = _place_said(by_name, engine, os.environ)
    lost: dict[str, list[str]] = {}
    for name, value in {**preset.run_values(engine), **preset.launch_values(engine)}.items():
        flag, words = flag_of(name), value if isinstance(value, list) else [value]
        if flag not in by_name or (flag not in _LISTS and by_name[flag].tokens):
            continue  # of another command, or said by the user
        if is_step and name in (*OF_NEW_JOB, "nodes"):
            continue  # that was asked for when the allocation was made
        if flag in said:
            if said[flag]:
                lost.setdefault(said[flag], []).append(f"{flag} {' '.join(words)}")
        else:
            values.setdefault(flag, []).extend(words)
    values["--library-path"] = list(preset.library_path)
    for flag, words in values.items():
        _put(by_name, flag, words, source=f"preset {preset.name}")
    return [f"{by} replaces preset {preset.name}'s {' and '.join(of)}" for by, of in lost.items()]


def _place_said(by_name: Mapping[str, Argument], engine: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Flags of the ranks' place in which a preset has no say any more, with the words that say it instead;
    empty where nobody has to hear of it.
    """
    if not engine:
        return {}
    found: dict[str, str] = {}
    if engine == "hosts" and PBS_NODES in environ:
        found.update(dict.fromkeys(_HOSTS, PBS_NODES))
    for flag, instead in _INSTEAD.items():
        if (argument := by_name.get(flag)) is not None and argument.tokens:
            found.update(dict.fromkeys(instead, f"{flag} {argument.tokens[-1].value}"))
    words = by_name["--set"].tokens if "--set" in by_name else []
    for word in (token.value for token in words):
        if said := _IN_SET.get(word.partition("=")[0].rpartition(".")[2]):
            found.update(dict.fromkeys((said, *_INSTEAD[said]), f"--set {word}"))
    if "--hosts" in found:
        found["--nodes"] = ""  # they are counted
    return found


def _put(by_name: dict[str, Argument], flag: str, words: list[str], source: str = "presets") -> None:
    argument = by_name.get(flag)
    if argument is None or not words:
        return  # of another command
    tokens = [Token(keyword=flag, value=word, source=source) for word in words]
    if flag in _PATHS:
        argument.tokens += tokens
    elif flag in _LISTS or not argument.tokens:
        argument.tokens[:0] = tokens


def lines_for_joined(launch: LaunchSettings, here: Mapping[str, str], launcher: str) -> tuple[str, ...]:
    """What to report of the presets' variables; ``here`` are the rank's. Raises UsageError for typed ones."""
    presets = presets_of(launch.preset)
    lost = lacking(launch, here)
    owners: dict[str, str] = {}  # the preset on top that says a variable
    has_typed_folders = len(launch.library_path) > sum(len(preset.library_path) for preset in presets)
    for preset in presets:
        environ = preset.environ("")
        owners |= {name: preset.name for name in lost if environ.get(name) == lost[name]}
        owners |= {LIBRARIES: preset.name} if preset.library_path and not has_typed_folders else {}
    if typed := [name for name in lost if name not in owners]:
        is_env = any(word.partition("=")[0] in typed for word in launch.env)
        flag = "--env" if is_env else "--library-path" if LIBRARIES in typed else "--env-file"
        raise UsageError(
            f"{flag} {', '.join(typed)} cannot reach the ranks that {launcher} started",
            hint=f"set them in the launcher ({_BY}), or use --on",
        )
    by_preset: dict[str, list[str]] = {}
    for name, value in lost.items():
        by_preset.setdefault(owners[name], []).append(f"{name}={shlex.quote(redact(name, value))}")
    own_words = launch.env[sum(len(preset.environ("")) for preset in presets) :]
    lines = (
        f"preset {name}: the launcher ({launcher}) did not set {' '.join(words)}, so the run continues"
        f" without; set them there ({_BY})"
        for name, words in by_preset.items()
    )
    # Nothing takes the place of what these ranks have.
    return (*overridden(presets, "", own_words, {}), *lines)
