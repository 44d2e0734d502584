"""``busbw presets check``: a user's file is well formed, and its values are such as flags take."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from busbw.cli.judged import check_references
from busbw.cli.preset_counts import check_counts
from busbw.cli.preset_values import flags_of, user_files
from busbw.errors import BusbwError, ExitCode, UsageError
from busbw.settings.preset import Preset, read_preset
from busbw.settings.preset_file import ENGINE_SECTIONS, load_file

if TYPE_CHECKING:
    from busbw.settings.launch import LaunchSettings
    from busbw.settings.run import RunSettings

_SOME_RANKS: Final = 2


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
            _check_references(preset, f"{path}: preset {preset.name}")
            for engine in _engines(preset, body):
                _check_values(preset, engine, f"{path}: preset {preset.name}", (*others, path))
    if not count:
        raise UsageError(f"{path} has no preset that can be used", hint="leave `abstract: true` out of one")
    if not head.get("source") or not head.get("date"):
        print(f"note: {path} does not say where its values are from (source:, date:)", file=sys.stderr)
    formed = "preset of family {} is" if count == 1 else "presets of family {} are"
    print(f"{path}: {count} {formed.format(head['family'])} well formed")
    return ExitCode.OK


def _engines(preset: Preset, own: Mapping[str, Any]) -> Iterator[str]:
    """The engine that the preset names, else this host; and those that it is said to fit, or has something
    for. Where it names one, what it only inherits of the others does not matter: ``own`` is its own text.
    """
    yield preset.engine
    body = own if preset.engine else preset.body
    for engine in ENGINE_SECTIONS:
        sections = (engine, f"{engine}_run", f"{engine}_env")
        is_said = engine in body.get("engines", ()) or any(body.get(section) for section in sections)
        if is_said and engine != preset.engine:
            yield engine


def _check_values(preset: Preset, engine: str, place: str, files: tuple[Path, ...]) -> None:
    where = f"{place}{' on ' * bool(engine)}{engine}"
    try:
        settings, launch = _parsed(preset, engine)
        _check_run(settings, preset, files)
        _check_files(launch)
        check_counts(settings.ranks, launch, engine)
        if engine == "kubernetes" and settings.ranks and launch.nodes:  # its form says whether they fit
            launch = replace(launch, set=(*launch.set, f"np={settings.ranks}"))
        if engine:
            _check_launch(launch, engine)
        else:
            _check_somewhere(launch)
            _check_counts_somewhere(preset, launch)
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", hint=error.hint) from error


def _check_references(preset: Preset, place: str) -> None:
    from busbw.record.folder import environ_home
    from busbw.references.load import find

    for name in preset.references:
        try:
            find(name, environ_home())
        except BusbwError as error:
            raise UsageError(f"{place}: references: {error.message}", hint=error.hint) from error


def _parsed(preset: Preset, engine: str) -> tuple[RunSettings, LaunchSettings]:
    """The preset's values read as flags of `busbw run`, one by one so that the wrong one is named."""
    from cyclopts import CycloptsError

    from busbw.cli.app import app
    from busbw.cli.commands import measure  # noqa: F401 (registers `run`)
    from busbw.settings.launch import LaunchSettings
    from busbw.settings.run import RunSettings

    words = ["run", "all_reduce"]
    for flag, values in {**flags_of(preset, engine), "--on": [engine] if engine else []}.items():
        words += [f"{flag}={value}" for value in values]
    try:
        _, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise UsageError(" ".join(str(error).split()), hint="write what the flag takes") from error
    return bound.kwargs.get("settings") or RunSettings(), bound.kwargs.get("launch") or LaunchSettings()


def _check_run(settings: RunSettings, preset: Preset, files: tuple[Path, ...]) -> None:
    from busbw.planning.make import make_plan
    from busbw.planning.preflight import NETWORKS, make_preflight

    checked = make_preflight(replace(settings, expect_use=preset.expects))
    own = {environ.get("NCCL_NET", "").lower() for environ in map(preset.environ, ("", *ENGINE_SECTIONS))}
    for word in checked.expects:
        name, _, value = word.partition("=")
        if name == "net" and value not in {*NETWORKS, *own} and not value.startswith("ibext"):
            raise UsageError(
                f"expects: {word}: no network is known by that name",
                hint=f"use one of: {', '.join(NETWORKS)}; or a plugin's, with NCCL_NET set to it",
            )
    make_plan(("all_reduce",), settings, "null", _SOME_RANKS)
    check_references(settings, files)


def _check_files(launch: LaunchSettings) -> None:
    """Files that are read where busbw is started, so here; and hosts, in a file or not."""
    from busbw.launchers.hosts_list import read_places
    from busbw.launchers.topology_files import SLURM, read_texts
    from busbw.launchers.variables import read_variables

    for name in ("env_file", "setup_script", "hostfile"):
        path = getattr(launch, name)
        if path is not None and not path.is_file():
            raise UsageError(
                f"{name}: there is no file {path}",
                hint="give its whole path, on the machine that starts busbw",
            )
    read_variables((), launch.env_file)
    if launch.hosts or launch.hostfile is not None:
        read_places(launch)
    read_texts(replace(launch, topology=tuple(name for name in launch.topology if name != SLURM)))


def _check_somewhere(launch: LaunchSettings) -> None:
    """Values for whatever engine the user names: each must mean something to one of them at least."""
    settings = [replace(launch, set=(word,), time_limit="") for word in launch.set]
    settings += [replace(launch, set=())] if launch.time_limit else []
    for each in settings:
        if not any(_is_taken(each, engine) for engine in ENGINE_SECTIONS):
            word = f"--set {each.set[0]}" if each.set else f"--time-limit {each.time_limit!r}"
            raise UsageError(
                f"{word} means nothing to any engine",
                hint="write it below the engine that it is for, or name that (launch: {on: ENGINE}):"
                " what it knows is listed then",
            )


def _check_counts_somewhere(preset: Preset, launch: LaunchSettings) -> None:
    """As each engine has them, since a later word on the place wins over others by engine."""
    refusals = []
    for engine in ("hosts",) if launch.hosts or launch.hostfile is not None else ENGINE_SECTIONS:
        settings, launch = _parsed(preset, engine)
        try:
            check_counts(settings.ranks, launch, engine)
        except UsageError as error:
            refusals.append(error)
        else:
            return
    raise refusals[0]


def _is_taken(launch: LaunchSettings, engine: str) -> bool:
    from busbw.settings.launch import LaunchSettings

    try:
        _check_launch(LaunchSettings(on=engine, set=launch.set, time_limit=launch.time_limit), engine)
    except UsageError:
        return False
    return True


def _check_launch(launch: LaunchSettings, engine: str) -> None:
    """What the engine says of the values, before any cluster is asked."""
    from importlib import import_module

    from busbw.launchers.settle import settle
    from busbw.settings.engines import ENGINES

    settled, _ = settle(launch, environ={})
    import_module(ENGINES[engine].check or ENGINES[engine].module).check(settled)
