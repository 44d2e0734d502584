"""A preset file's form: what may stand in it, checked word by word, so that no typo is dropped in silence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from busbw.errors import UsageError
from busbw.settings.engines import ENGINES
from busbw.settings.launch import LaunchSettings
from busbw.settings.run import RunSettings

if TYPE_CHECKING:
    from ruamel.yaml.nodes import ScalarNode

ENGINE_SECTIONS: Final = tuple(ENGINES)
_RUN_SECTIONS: Final = ("run", *(f"{engine}_run" for engine in ENGINE_SECTIONS))
_ENV_SECTIONS: Final = ("env", *(f"{engine}_env" for engine in ENGINE_SECTIONS))
MAPPINGS: Final = ("node", "launch", *ENGINE_SECTIONS, *_RUN_SECTIONS, *_ENV_SECTIONS)
# Commands that measure where `run` cannot.
TOOLS: Final = ("nccom-test",)
_LISTS: Final = (
    *("library_path", "expects", "references", "notes", "unset", "engines"),
    *(f"{e}_unset" for e in ENGINE_SECTIONS),
)
_TEXTS: Final = ("summary", "image", "extends", "since", "tool")
_KNOWN: Final = frozenset({*MAPPINGS, *_LISTS, *_TEXTS, "abstract", "versions"})
# What is known of a node; ``networks`` are those that its pods get beside the cluster's.
_NODE: Final = frozenset(
    (
        *("gpus", "gpu", "nics", "nic", "node_gbit_per_s", "nvlinks_per_gpu", "arch", "topology_layers"),
        *("nvlink_domain_nodes", "networks", "chips", "ranks"),
    )
)
_RUN_FIELDS: Final = frozenset(item.name for item in fields(RunSettings))
_LAUNCH_FIELDS: Final = frozenset(item.name for item in fields(LaunchSettings))


def load_file(path: Path) -> Mapping[str, Any]:
    """A user's preset file, checked. Raises UsageError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the preset file {path}: {error}") from error
    head = parse(text, str(path))
    refuse_cut_notes(text, str(path))
    return head


def refuse_cut_notes(text: str, place: str) -> None:
    """Raises UsageError for a note that YAML cut at a comma: in ``[a, b]`` every comma begins a new one."""
    from ruamel.yaml import YAML
    from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

    open_nodes = [YAML(typ="safe", pure=True).compose(text)]
    while open_nodes:
        node = open_nodes.pop()
        if not isinstance(node, MappingNode):
            continue
        for key, value in node.value:
            open_nodes.append(value)
            if not (key.value == "notes" and isinstance(value, SequenceNode) and value.flow_style):
                continue
            plain = [each for each in value.value[1:] if isinstance(each, ScalarNode) and not each.style]
            if plain:
                raise UsageError(
                    f"{place}, line {_line(plain[0])}: a comma begins the note {plain[0].value!r}",
                    hint="write each note in quotes, or on a line of its own behind `- `",
                )


def _line(node: ScalarNode) -> int:
    return int(node.start_mark.line) + 1


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
    _check_node(body.get("node", {}), place)
    for section in _RUN_SECTIONS:
        _check_fields(body.get(section, {}), _RUN_FIELDS, f"{place}: {section}")
    for section in ("launch", *ENGINE_SECTIONS):
        if section != "kubernetes":  # its keys are those of --set
            known = _LAUNCH_FIELDS if section == "launch" else _LAUNCH_FIELDS - {"on"}
            _check_fields(body.get(section, {}), known, f"{place}: {section}")
    _refuse_other_engines([body.get("launch", {}).get("on")], f"{place}: launch: on")
    _refuse_other_engines(body.get("engines", ()), f"{place}: engines")
    for section in _ENV_SECTIONS:
        for name, value in body.get(section, {}).items():
            if not isinstance(value, str | None):
                raise UsageError(f"{place}: {section}: {name} is not text", hint=f'write {name}: "{value}"')
    for date, values in body.get("versions", {}).items():
        _check(values or {}, f"{place}: version {date}")


def _check_node(node: Mapping[str, Any], place: str) -> None:
    for name in node:
        if name not in _NODE:
            known = ", ".join(sorted(_NODE))
            raise UsageError(f"{place}: node: {name!r} is not known", hint=f"use one of: {known}")


def _check_kind(key: str, value: object, place: str) -> None:
    if key not in _KNOWN:
        raise UsageError(f"{place}: {key!r} is not known", hint=f"use one of: {', '.join(sorted(_KNOWN))}")
    wanted: type = dict if key in (*MAPPINGS, "versions") else list if key in _LISTS else object
    if not isinstance(value, wanted):
        raise UsageError(f"{place}: {key} is not a {'mapping' if wanted is dict else 'list'}")
    if key in _TEXTS and not isinstance(value, str):
        raise UsageError(f"{place}: {key} is not text", hint=f'write {key}: "{value}"')
    if key in _LISTS and (other := [item for item in value if not isinstance(item, str)]):  # type: ignore[attr-defined]
        raise UsageError(f"{place}: {key}: {other[0]!r} is not text", hint="put it in quotes")
    if key == "tool" and value not in TOOLS:
        raise UsageError(f"{place}: tool {value!r} is not known", hint=f"tools: {', '.join(TOOLS)}")


def _refuse_other_engines(named: Iterable[object], place: str) -> None:
    for name in named:
        if name not in (None, *ENGINE_SECTIONS):
            raise UsageError(f"{place}: {name!r} is no engine", hint=f"engines: {', '.join(ENGINE_SECTIONS)}")


def _check_fields(values: Mapping[str, Any], known: frozenset[str], place: str) -> None:
    for name in values:
        if name not in known:
            raise UsageError(f"{place}: {name!r} is no setting", hint="use the flags' names, as minbytes")
