"""``busbw presets list``, ``show`` and ``check``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from busbw.cli import output
from busbw.cli.app import CleanApp, TextOrJson, examples, positional
from busbw.cli.output import as_json
from busbw.cli.preset_values import user_files
from busbw.cli.run_answer import check_references
from busbw.errors import ExitCode, UsageError, refused_in
from busbw.judge.references.load import find
from busbw.launch.hosts.list import read_places
from busbw.launch.topology.order import SLURM, read_topology
from busbw.launch.variables import read_variables
from busbw.plan.flags.engines import ENGINES
from busbw.plan.flags.launch import LaunchSettings
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import read_settings
from busbw.plan.make import NETWORKS, check_settings, make_preflight
from busbw.plan.presets.preset import ENGINE_SECTIONS, Preset, load_file, names, read_preset
from busbw.record.folder import environ_home
from busbw.redact import redact_all, redact_variables
from busbw.report.fields import aligned

app = CleanApp(name="presets")


@app.command(name="list", help_epilogue=examples("busbw presets list"))
def show_list(
    *,
    format: TextOrJson = "table",  # noqa: A002
) -> ExitCode:
    """List every preset, with the date of its values."""
    presets = [read_preset(name, user_files()) for name in names(user_files())]
    keys = ("name", "date", "summary", "versions")
    output.show(
        format,
        aligned([(each.name, each.date, each.summary) for each in presets]),
        json=lambda: as_json([{key: getattr(each, key) for key in keys} for each in presets]),
    )
    return ExitCode.OK


@app.command(name="show", help_epilogue=examples("busbw presets show aws/p5.48xlarge@2024-04"))
def show(
    name: Annotated[str, positional("FAMILY/NAME, with @DATE for older values.")],
    /,
    *,
    format: TextOrJson = "table",  # noqa: A002
) -> ExitCode:
    """Show everything that a preset sets, and where it is from."""
    preset = read_preset(name, user_files())
    head = {key: getattr(preset, key) for key in ("name", "source", "date", "versions")}
    output.show(
        format,
        (f"{preset.name}: {preset.summary}", *(f"{title:<11} {text}" for title, text in _shown(preset))),
        json=lambda: as_json(redact_all({**head, **preset.body})),
    )
    return ExitCode.OK


def _shown(preset: Preset) -> Iterator[tuple[str, str]]:
    """Each thing that it sets, and its title."""
    also = f"  (also @{', @'.join(preset.versions)})" if preset.versions else ""
    yield "source", preset.source
    yield "date", f"{preset.date}{also}"
    said = {title: redact_all(preset.body.get(title)) for title in ("image", "node", "run", "launch")}
    said["engines"] = ", ".join(preset.engines)
    said["tool"] = preset.tool and f"busbw {preset.tool}"
    for title, value in said.items():
        if value:
            yield title, _line(value)
    for name_, value in redact_variables(preset.environ("")).items():
        yield "env", f"{name_}={value}"
    for path in preset.library_path:
        yield "libraries", str(path)
    for engine in ENGINE_SECTIONS:
        yield from _shown_engine(engine, preset)
    yield from (("expects", line) for line in preset.expects)
    yield from (("note", line) for line in preset.notes)


def _shown_engine(engine: str, preset: Preset) -> Iterator[tuple[str, str]]:
    """What the preset has for one engine beside what holds for all."""
    body = redact_all(preset.body)
    plain, own = (redact_variables(preset.environ(each)) for each in ("", engine))
    if section := {**body.get(engine, {}), **body.get(f"{engine}_set", {})}:
        yield engine, _line(section)
    if run := body.get(f"{engine}_run"):
        yield engine, f"run {_line(run)}"
    for name, value in own.items():
        if plain.get(name) != value:
            yield engine, f"env {name}={value}"
    for name in plain:
        if name not in own:
            yield engine, f"env without {name}"


def _line(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={item}" for name, item in value.items() if item != "")
    return str(value)


@app.command(name="check", help_epilogue=examples("busbw presets check ours.yaml"))
def check(file: Annotated[Path, positional("A preset file of your own.")], /) -> ExitCode:
    """Check a preset file of your own."""
    path = file  # each of its presets is resolved in each version, and its values are read as flags
    head = load_file(path)
    others = tuple(file for file in user_files() if file.resolve() != path.resolve())
    count = 0
    for name, body in head["presets"].items():
        full = f"{head['family']}/{name}"
        now = read_preset(full, (*others, path))
        count += not body.get("abstract")
        for preset in (now, *(read_preset(f"{full}@{date}", (*others, path)) for date in now.versions)):
            with refused_in(f"{path}: preset {preset.name}: references"):
                for reference in preset.references:
                    find(reference, environ_home())
            for engine in _engines(preset, body):
                with refused_in(f"{path}: preset {preset.name}" + (f" on {engine}" if engine else "")):
                    _check_values(preset, engine, (*others, path))
    if not count:
        raise UsageError(f"{path} has no usable preset", hint="remove `abstract: true` from one")
    if not head.get("source") or not head.get("date"):
        print(f"note: {path} does not state the source of its values (source:, date:)", file=sys.stderr)
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
        sections = (engine, f"{engine}_set", f"{engine}_run", f"{engine}_env")
        is_said = engine in body.get("engines", ()) or any(body.get(section) for section in sections)
        if is_said and engine != preset.engine:
            yield engine


def _check_values(preset: Preset, engine: str, files: tuple[Path, ...]) -> None:
    """As flags of `busbw run` are read; the engine says what it can before any cluster is asked."""
    launch = read_settings(LaunchSettings, {**preset.launch_values(engine), "on": engine or None})
    _check_run(read_settings(RunSettings, preset.run_values(engine)), preset, files)
    for name in (
        "env_file",
        "setup_script",
        "hostfile",
    ):  # files that are read where busbw is started, so here
        path = getattr(launch, name)
        if path is not None and not path.is_file():
            raise UsageError(f"{name}: there is no file {path}", hint="give its full path on this machine")
    read_variables((), launch.env_file)
    if launch.hosts or launch.hostfile is not None:
        read_places(launch)
    read_topology(replace(launch, topology=tuple(name for name in launch.topology if name != SLURM)))
    if engine:
        import_module(ENGINES[engine].check or ENGINES[engine].module).check(launch)


def _check_run(settings: RunSettings, preset: Preset, files: tuple[Path, ...]) -> None:
    checked = make_preflight(replace(settings, expect_use=preset.expects))
    own = {environ.get("NCCL_NET", "").lower() for environ in map(preset.environ, ("", *ENGINE_SECTIONS))}
    for word in checked.expects:
        name, _, value = word.partition("=")
        if name == "net" and value not in {*NETWORKS, *own} and not value.startswith("ibext"):
            raise UsageError(
                f"expects: {word}: unknown network",
                hint=f"use one of: {', '.join(NETWORKS)}; or a plugin's name, with NCCL_NET set to it",
            )
    check_settings(("all_reduce",), settings)
    check_references(settings, files)
