"""A preset file's form: what may stand in it, checked word by word, so that no typo is dropped in silence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, get_type_hints

from cyclopts import Parameter

from busbw.errors import UsageError
from busbw.settings.engines import ENGINES
from busbw.settings.launch import VARIABLE, LaunchSettings
from busbw.settings.preset_yaml import read_yaml, refuse_cut_notes
from busbw.settings.run import RunSettings

ENGINE_SECTIONS: Final = tuple(ENGINES)
_RUN_SECTIONS: Final = ("run", *(f"{engine}_run" for engine in ENGINE_SECTIONS))
_ENV_SECTIONS: Final = ("env", *(f"{engine}_env" for engine in ENGINE_SECTIONS))
_UNSET_SECTIONS: Final = ("unset", *(f"{engine}_unset" for engine in ENGINE_SECTIONS))
MAPPINGS: Final = ("node", "launch", *ENGINE_SECTIONS, *_RUN_SECTIONS, *_ENV_SECTIONS)
# Commands that measure where `run` cannot.
TOOLS: Final = ("nccom-test",)
_LISTS: Final = ("library_path", "expects", "references", "notes", "engines", *_UNSET_SECTIONS)
_TEXTS: Final = ("summary", "image", "extends", "since", "tool")
_KNOWN: Final = frozenset({*MAPPINGS, *_LISTS, *_TEXTS, "abstract", "versions"})
# They say what a preset is, which its versions do not change.
_OF_ALL_VERSIONS: Final = ("extends", "since", "versions", "abstract")
# What is known of a node; ``networks`` are those that its pods get beside the cluster's.
_NODE_TEXTS: Final = ("gpu", "nic", "arch")
_NODE_NUMBERS: Final = (
    *("gpus", "nics", "node_gbit_per_s", "nvlinks_per_gpu", "topology_layers", "nvlink_domain_nodes"),
    *("networks", "chips", "ranks"),
)
_NAME: Final = re.compile(r"\w[\w.+-]*")
_DATE: Final = re.compile(r"\d{4}(-\d{2}){0,2}")
# Fields and words of --set that count what there cannot be none of.
_COUNTS: Final = ("ranks", "ranks_per_node", "segment", "slots", "replicas", "np")
# A flag's field -> the section that says it here.
_OWN_SECTIONS: Final = {
    "preset": "extends",
    "env": "env",
    "library_path": "library_path",
    "expect_use": "expects",
}


def _said_by_users(kind: type[RunSettings | LaunchSettings]) -> Mapping[str, bool]:
    """Fields that are flags for users, and whether they take several values; not what busbw writes into jobs
    itself, nor what has a section of its own.
    """
    hints = get_type_hints(kind, include_extras=True)
    hidden = {
        name
        for name, hint in hints.items()
        for mark in getattr(hint, "__metadata__", ())
        if isinstance(mark, Parameter) and mark.show is False
    }
    left_out = hidden | _OWN_SECTIONS.keys()
    return {item.name: isinstance(item.default, tuple) for item in fields(kind) if item.name not in left_out}


_RUN_FIELDS: Final = _said_by_users(RunSettings)
_LAUNCH_FIELDS: Final = _said_by_users(LaunchSettings)
_ENGINE_FIELDS: Final = {name: several for name, several in _LAUNCH_FIELDS.items() if name != "on"}


def load_file(path: Path) -> Mapping[str, Any]:
    """A user's preset file, checked. Raises UsageError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"cannot read the preset file {path}: {error}", hint="name a file in UTF-8 that can be read"
        ) from error
    head = parse(text, str(path))
    refuse_cut_notes(text, str(path))
    return head


def parse(text: str, place: str) -> Mapping[str, Any]:
    """A preset file's content, every word of it known. Raises UsageError naming the place."""
    loaded = read_yaml(text, place)
    if not isinstance(loaded, dict) or not isinstance(loaded.get("presets"), dict):
        raise UsageError(f"{place} has no mapping of presets", hint="begin it with `family:` and `presets:`")
    if not isinstance(loaded.get("family"), str):
        raise UsageError(f"{place} names no family", hint="add `family: NAME`")
    _check_name(loaded["family"], f"{place}: family")
    for key in loaded.keys() - {"family", "source", "date", "presets"}:
        raise UsageError(
            f"{place}: {key!r} is no part of a preset file", hint="use family, source, date and presets"
        )
    for name, body in loaded["presets"].items():
        _check_name(name, f"{place}: preset")
        _check(body, f"{place}: preset {name}")
    return loaded


def _check_name(name: object, place: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(
            f"{place} {name!r} is no name for --preset FAMILY/NAME@DATE",
            hint="write letters, digits, dots, hyphens and underscores; a number in quotes",
        )


def _check(body: object, place: str) -> None:
    if not isinstance(body, dict):
        raise UsageError(f"{place} is not a mapping", hint="write `KEY: VALUE` lines below it")
    for key, value in body.items():
        _check_kind(key, value, place)
    _check_node(body.get("node", {}), f"{place}: node")
    for section in _RUN_SECTIONS:
        _check_fields(body.get(section, {}), _RUN_FIELDS, f"{place}: {section}")
    for section in ("launch", *ENGINE_SECTIONS):
        known = _LAUNCH_FIELDS if section == "launch" else _ENGINE_FIELDS
        if section == "kubernetes":  # its keys are those of --set, which knows them
            known = {str(key): False for key in body.get(section, {})}
        _check_fields(body.get(section, {}), known, f"{place}: {section}")
    _refuse_other_engines([body.get("launch", {}).get("on")], f"{place}: launch: on")
    _refuse_other_engines(body.get("engines", ()), f"{place}: engines")
    _check_variables(body, place)
    _check_versions(body, place)


def _check_variables(body: Mapping[str, Any], place: str) -> None:
    for section in _ENV_SECTIONS:
        for name, value in body.get(section, {}).items():
            _check_variable(name, f"{place}: {section}")
            if not isinstance(value, str | None):
                raise UsageError(
                    f"{place}: {section}: {name} is not text", hint="put its value in quotes, as it stands"
                )  # 0x10 and 010 were numbers once YAML had read them
    for section in _UNSET_SECTIONS:
        for name in body.get(section, ()):
            _check_variable(name, f"{place}: {section}")


def _check_variable(name: object, place: str) -> None:
    if not isinstance(name, str) or not VARIABLE.fullmatch(name):
        raise UsageError(f"{place}: {name!r} is no name of a variable", hint="write it as NCCL_DEBUG")


def _check_versions(body: Mapping[str, Any], place: str) -> None:
    for date in (*filter(None, [body.get("since")]), *body.get("versions", {})):
        if not _DATE.fullmatch(str(date)):
            raise UsageError(f"{place}: {date!r} is no date of values", hint="write 2026-05, or 2026-05-27")
    for date, values in body.get("versions", {}).items():
        _check({} if values is None else values, f"{place}: version {date}")
        for key in _OF_ALL_VERSIONS:
            if values and key in values:
                raise UsageError(
                    f"{place}: version {date}: {key!r} cannot differ between versions",
                    hint="write it beside `versions:`",
                )


def _check_node(node: Mapping[str, Any], place: str) -> None:
    for name, value in node.items():
        if name not in (*_NODE_TEXTS, *_NODE_NUMBERS):
            known = ", ".join(sorted((*_NODE_TEXTS, *_NODE_NUMBERS)))
            raise UsageError(f"{place}: {name!r} is not known", hint=f"use one of: {known}")
        if value is None:
            continue
        if name in _NODE_TEXTS and not isinstance(value, str):
            raise UsageError(f"{place}: {name} is not text", hint=f'write {name}: "..."')
        if name in _NODE_NUMBERS and not _is_amount(value, name):
            raise UsageError(f"{place}: {name}: {value!r} is no number of them", hint=f"write {name}: 8")


def _is_amount(value: object, name: str) -> bool:
    wanted = int | float if name == "node_gbit_per_s" else int
    return isinstance(value, wanted) and not isinstance(value, bool) and value >= 0


def _check_kind(key: str, value: object, place: str) -> None:
    if key not in _KNOWN:
        raise UsageError(f"{place}: {key!r} is not known", hint=f"use one of: {', '.join(sorted(_KNOWN))}")
    wanted: type = dict if key in (*MAPPINGS, "versions") else list if key in _LISTS else object
    if not isinstance(value, wanted):
        form = "mapping" if wanted is dict else "list"
        hint = "write `KEY: VALUE` lines below it" if wanted is dict else "write it as [WORD, WORD]"
        raise UsageError(f"{place}: {key} is not a {form}", hint=hint)
    if key in _TEXTS and not isinstance(value, str):
        raise UsageError(f"{place}: {key} is not text", hint=f'write {key}: "{value}"')
    if key in _LISTS and (other := [item for item in value if not isinstance(item, str)]):  # type: ignore[attr-defined]
        raise UsageError(f"{place}: {key}: {other[0]!r} is not text", hint="put it in quotes")
    if key == "tool" and value not in TOOLS:
        raise UsageError(f"{place}: tool {value!r} is not known", hint=f"tools: {', '.join(TOOLS)}")
    if key == "extends" and not value:
        raise UsageError(f"{place}: extends names no preset", hint="leave it out, or name one")
    if key == "abstract" and not isinstance(value, bool):
        raise UsageError(f"{place}: abstract: {value!r} is neither true nor false", hint="write one of them")


def _refuse_other_engines(named: Iterable[object], place: str) -> None:
    for name in named:
        if name not in (None, *ENGINE_SECTIONS):
            raise UsageError(f"{place}: {name!r} is no engine", hint=f"engines: {', '.join(ENGINE_SECTIONS)}")


def _check_fields(values: Mapping[str, Any], known: Mapping[str, bool], place: str) -> None:
    """``known``: name -> whether it takes several values."""
    for name, value in values.items():
        if name not in known:
            own = _OWN_SECTIONS.get(name)
            hint = f"say it by the preset's own `{own}:`" if own else "use the flags' names, as minbytes"
            raise UsageError(f"{place}: {name!r} is no setting", hint=hint)
        if value is not None:  # which drops what is inherited
            _check_value(name, value, place, several=known[name])


def _check_value(name: str, value: object, place: str, *, several: bool) -> None:
    if several and not isinstance(value, list):
        raise UsageError(f"{place}: {name} is not a list", hint=f"write {name}: [...]")
    if isinstance(value, list) and several:
        if other := [word for word in value if not isinstance(word, str)]:
            raise UsageError(f"{place}: {name}: {other[0]!r} is not text", hint="put it in quotes")
    elif isinstance(value, list | dict):
        raise UsageError(f"{place}: {name}: {value!r} is not one value", hint=f'write {name}: "..."')
    elif not isinstance(value, str | int | float):  # a date
        raise UsageError(f"{place}: {name} is not text", hint=f'write {name}: "{value}"')
    elif name in _COUNTS and value != "" and not (str(value).isdecimal() and int(value)):
        raise UsageError(f"{place}: {name}: {value!r} is no count", hint="give 1 or more")
