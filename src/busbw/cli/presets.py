"""``busbw presets list|show``."""

from __future__ import annotations

import json

from busbw.cli.preset_values import user_files
from busbw.errors import ExitCode
from busbw.settings.preset import names, read_preset
from busbw.settings.preset_file import ENGINE_SECTIONS


def show_list(format_name: str) -> ExitCode:
    """Every preset, with the date of its values."""
    presets = [read_preset(name, user_files()) for name in names(user_files())]
    if format_name == "json":
        rows = [
            {"name": p.name, "date": p.date, "summary": p.summary, "versions": p.versions} for p in presets
        ]
        print(json.dumps(rows, indent=1))
        return ExitCode.OK
    width = max(len(preset.name) for preset in presets)
    for preset in presets:
        print(f"{preset.name:{width}}  {preset.date}  {preset.summary}")
    return ExitCode.OK


def show(name: str, format_name: str) -> ExitCode:
    """Everything that a preset says, and where it is from."""
    preset = read_preset(name, user_files())
    if format_name == "json":
        head = {
            "name": preset.name,
            "source": preset.source,
            "date": preset.date,
            "versions": preset.versions,
        }
        print(json.dumps({**head, **preset.body}, indent=1, default=str))
        return ExitCode.OK
    print(f"{preset.name}: {preset.summary}")
    print(f"source    {preset.source}")
    print(
        f"date      {preset.date}" + (f"  (also @{', @'.join(preset.versions)})" if preset.versions else "")
    )
    for title in ("image", "node", "run", "launch"):
        if value := preset.body.get(title):
            print(f"{title:9} {_line(value)}")
    if preset.engines:
        print(f"engines   {', '.join(preset.engines)}")
    print(f"tool      busbw {preset.tool}\n" * bool(preset.tool), end="")
    for name_, value in preset.environ("").items():
        print(f"env       {name_}={value}")
    for path in preset.library_path:
        print(f"libraries {path}")
    for engine in ENGINE_SECTIONS:
        _show_engine(engine, preset.body, dict(preset.environ("")), dict(preset.environ(engine)))
    for title, lines in (("expects", preset.expects), ("note", preset.notes)):
        for line in lines:
            print(f"{title:9} {line}")
    return ExitCode.OK


def _show_engine(engine: str, body: object, plain: dict[str, str], own: dict[str, str]) -> None:
    section = body.get(engine) if isinstance(body, dict) else None
    run = body.get(f"{engine}_run") if isinstance(body, dict) else None
    changed = {name: value for name, value in own.items() if plain.get(name) != value}
    gone = [name for name in plain if name not in own]
    if section:
        print(f"{engine:9} {_line(section)}")
    if run:
        print(f"{engine:9} run {_line(run)}")
    for name, value in changed.items():
        print(f"{engine:9} env {name}={value}")
    for name in gone:
        print(f"{engine:9} env without {name}")


def _line(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={item}" for name, item in value.items() if item != "")
    return str(value)
