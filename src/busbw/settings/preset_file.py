"""A preset file's form: what may stand in it, checked word by word, so that no typo is dropped in silence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from busbw.errors import UsageError
from busbw.settings.engines import ENGINES
from busbw.settings.launch import LaunchSettings
from busbw.settings.run import RunSettings

ENGINE_SECTIONS: Final = tuple(ENGINES)
MAPPINGS: Final = ("node", "run", "env", "launch", *ENGINE_SECTIONS, *(f"{e}_env" for e in ENGINE_SECTIONS))
_LISTS: Final = (
    *("library_path", "expects", "references", "notes", "unset", "engines"),
    *(f"{e}_unset" for e in ENGINE_SECTIONS),
)
_TEXTS: Final = ("summary", "image", "extends")
_KNOWN: Final = frozenset({*MAPPINGS, *_LISTS, *_TEXTS, "abstract", "versions"})
_RUN_FIELDS: Final = frozenset(item.name for item in fields(RunSettings))
_LAUNCH_FIELDS: Final = frozenset(item.name for item in fields(LaunchSettings))


def load_file(path: Path) -> Mapping[str, Any]:
    """A user's preset file, checked. Raises UsageError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the preset file {path}: {error}") from error
    return parse(text, str(path))


def parse(text: str, place: str) -> Mapping[str, Any]:
    """A preset file's content, every word of it known. Raises UsageError naming the place."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        loaded = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise UsageError(
            f"{place} is not YAML: {error}", hint="mind the indentation and the colons"
        ) from error
    if not isinstance(loaded, dict) or not isinstance(loaded.get("presets"), dict):
        raise UsageError(f"{place} has no mapping of presets", hint="begin it with `family:` and `presets:`")
    if not isinstance(loaded.get("family"), str) or "/" in loaded["family"]:
        raise UsageError(f"{place} names no family", hint="add `family: NAME`")
    for key in loaded.keys() - {"family", "source", "date", "presets"}:
        raise UsageError(f"{place}: {key!r} is no part of a preset file")
    for name, body in loaded["presets"].items():
        _check(body, f"{place}: preset {name}")
    return loaded


def _check(body: object, place: str) -> None:
    if not isinstance(body, dict):
        raise UsageError(f"{place} is not a mapping")
    for key, value in body.items():
        _check_kind(key, value, place)
    _check_fields(body.get("run", {}), _RUN_FIELDS, f"{place}: run")
    for section in ("launch", *ENGINE_SECTIONS):
        if section != "kubernetes":  # its keys are those of --set
            _check_fields(body.get(section, {}), _LAUNCH_FIELDS, f"{place}: {section}")
    for section in ("env", *(f"{engine}_env" for engine in ENGINE_SECTIONS)):
        for name, value in body.get(section, {}).items():
            if not isinstance(value, str):
                raise UsageError(f"{place}: {section}: {name} is not text", hint=f'write {name}: "{value}"')
    for date, values in body.get("versions", {}).items():
        _check(values or {}, f"{place}: version {date}")


def _check_kind(key: str, value: object, place: str) -> None:
    if key not in _KNOWN:
        raise UsageError(f"{place}: {key!r} is not known", hint=f"use one of: {', '.join(sorted(_KNOWN))}")
    wanted: type = dict if key in (*MAPPINGS, "versions") else list if key in _LISTS else object
    if not isinstance(value, wanted):
        raise UsageError(f"{place}: {key} is not a {'mapping' if wanted is dict else 'list'}")
    if key == "engines" and (unknown := [name for name in value if name not in ENGINE_SECTIONS]):  # type: ignore[attr-defined]
        raise UsageError(
            f"{place}: engine {unknown[0]!r} is not known", hint=f"engines: {', '.join(ENGINE_SECTIONS)}"
        )


def _check_fields(values: Mapping[str, Any], known: frozenset[str], place: str) -> None:
    for name in values:
        if name not in known:
            raise UsageError(f"{place}: {name!r} is no setting", hint="use the flags' names, as minbytes")
