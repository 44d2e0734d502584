"""``busbw presets check``: a user's file is well formed, and its values are such as flags take."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from busbw.cli.preset_values import flags_of, user_files
from busbw.errors import ExitCode, UsageError
from busbw.settings.preset import Preset, read_preset
from busbw.settings.preset_file import ENGINE_SECTIONS, load_file

if TYPE_CHECKING:
    from busbw.settings.launch import LaunchSettings
    from busbw.settings.run import RunSettings

_SOME_RANKS: Final = 2
_IMAGE: Final = "image"


def check(path: Path) -> ExitCode:
    """Resolve every preset of a user's file in each version; read its values as flags. Raises UsageError."""
    head = load_file(path)
    others = tuple(file for file in user_files() if file.resolve() != path.resolve())
    count = 0
    for name, body in head["presets"].items():
        full = f"{head['family']}/{name}"
        now = read_preset(full, (*others, path))
        count += not body.get("abstract")
        for preset in (now, *(read_preset(f"{full}@{date}", (*others, path)) for date in now.versions)):
            for engine in ("", *_engines(preset)):
                _check_values(preset, engine, f"{path}: preset {preset.name}")
    if not count:
        raise UsageError(f"{path} has no preset that can be used", hint="leave `abstract: true` out of one")
    if not head.get("source") or not head.get("date"):
        print(f"note: {path} does not say where its values are from (source:, date:)", file=sys.stderr)
    print(f"{path}: {count} presets of family {head['family']} are well formed")
    return ExitCode.OK


def _engines(preset: Preset) -> Iterator[str]:
    """Engines that it says something for, or that it is said to fit."""
    for engine in ENGINE_SECTIONS:
        sections = (engine, f"{engine}_run", f"{engine}_env")
        if engine in preset.engines or any(preset.body.get(section) for section in sections):
            yield engine


def _check_values(preset: Preset, engine: str, place: str) -> None:
    where = f"{place}{' on ' * bool(engine)}{engine}"
    try:
        settings, launch = _parsed(preset, engine)
        _check_run(settings, preset)
        for count in filter(None, launch.nodes.split(",")):
            if not (count.strip().isdecimal() and int(count)):
                raise UsageError(f"nodes: {count!r} is no number of nodes", hint='write nodes: "8"')
        if engine == "kubernetes":
            _check_form(launch)
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", hint=error.hint) from error


def _parsed(preset: Preset, engine: str) -> tuple[RunSettings, LaunchSettings]:
    """The preset's values read as flags of `busbw run`, one by one so that the wrong one is named."""
    from cyclopts import CycloptsError

    from busbw.cli.app import app
    from busbw.cli.commands import measure  # noqa: F401 (registers `run`)
    from busbw.settings.launch import LaunchSettings
    from busbw.settings.run import RunSettings

    words = ["run", "all_reduce", *([f"--on={engine}"] if engine else [])]
    for flag, values in flags_of(preset, engine).items():
        words += [f"{flag}={value}" for value in values]
    try:
        _, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise UsageError(" ".join(str(error).split()), hint="write what the flag takes") from error
    return bound.kwargs.get("settings") or RunSettings(), bound.kwargs.get("launch") or LaunchSettings()


def _check_run(settings: RunSettings, preset: Preset) -> None:
    from busbw.planning.make import make_plan
    from busbw.planning.preflight import make_preflight

    make_preflight(replace(settings, expect_use=preset.expects))
    make_plan(("all_reduce",), settings, "null", _SOME_RANKS)


def _check_form(launch: LaunchSettings) -> None:
    from busbw.launchers.engine import Job, Work
    from busbw.launchers.kubernetes_form import read_form

    whole = replace(launch, nodes=launch.nodes.partition(",")[0] or "1", image=launch.image or _IMAGE)
    read_form(Job(run_id="check", folder="check", work=Work(("run",)), launch=whole, environ={}))
