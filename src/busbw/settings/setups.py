"""The spec file of setups: YAML to values, checked, with the place of every mistake named.

default: tcp              # the baseline; without it, the first
setups:
  tcp: {}
  plugin:
    extends: tcp
    env: {NCCL_NET: AWS Libfabric}
    prepend: {LD_LIBRARY_PATH: /soft/lib}
    unset: [NCCL_NET_PLUGIN]
    flags: {buffers: nccl}
    why: one sentence
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from busbw.errors import UsageError
from busbw.settings.run import RunSettings

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# In a file name, a table and a shell alike.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*\Z")
_TOP: Final = ("default", "setups", "source", "version", "about")
_SETUP: Final = ("extends", "env", "prepend", "unset", "flags", "why")
# Flags that a setup may set: how the same calls are made. What is measured is the same for all setups.
FLAGS: Final = ("nccl", "buffers", "local_register", "cudagraph", "unalign", "hot")


@dataclass(frozen=True)
class SetupSpec:
    """One setup as written. ``env`` are variables to set, ``prepend`` folders to put before what a variable
    has, ``unset`` variables to remove, ``flags`` settings of ``run`` (``FLAGS``).
    """

    name: str
    extends: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    prepend: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    flags: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""


@dataclass(frozen=True)
class SetupFile:
    """All setups of a file in its order; ``default`` is the baseline's name. ``source`` says where they come
    from, ``version`` of what, ``about`` what to know of them.
    """

    default: str
    setups: tuple[SetupSpec, ...]
    source: str = ""
    version: str = ""
    about: str = ""


def read_setups(path: Path) -> SetupFile:
    """A spec file. Raises UsageError where it cannot be read or says what no setup can be."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}", hint="name a file of setups in YAML") from error
    return parse_setups(text, str(path))


def parse_setups(text: str, where: str) -> SetupFile:
    """A spec file's text. Raises UsageError."""
    body = _yaml(text, where)
    _refuse_unknown(body, _TOP, where)
    listed = body.get("setups")
    if not isinstance(listed, dict) or not listed:
        raise UsageError(f"{where} has no setups", hint="write them under `setups:`, each with a name")
    setups = tuple(_setup(str(name), value, where) for name, value in listed.items())
    names = [setup.name for setup in setups]
    default = _word(body, "default", where) or names[0]
    for word in (default, *(setup.extends for setup in setups if setup.extends)):
        if word not in names:
            raise UsageError(f"{where}: no setup {word!r}", hint=f"the file has: {', '.join(names)}")
    return SetupFile(
        default, setups, *(_word(body, name, where).strip() for name in ("source", "version", "about"))
    )


def _yaml(text: str, where: str) -> dict[str, Any]:
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import SafeConstructor
    from ruamel.yaml.error import YAMLError

    class AsWritten(SafeConstructor):
        """2.10 is no 2.1, 0x10 no 16 and 2026-1-2 no 2026-01-02 in a variable."""

    for kind in ("int", "float", "timestamp"):
        AsWritten.add_constructor(f"tag:yaml.org,2002:{kind}", lambda _, node: node.value)
    reader = YAML(typ="safe", pure=True)  # YAML 1.2: NO and on are words
    reader.Constructor = AsWritten
    try:
        body = reader.load(text)
    except (YAMLError, RecursionError, ValueError, KeyError) as error:  # the last two: !!bool "x"
        raise UsageError(f"{where} is not YAML: {error}", hint="check its indentation and quotes") from error
    if not isinstance(body, dict):
        raise UsageError(f"{where} is not a file of setups", hint="write them under `setups:`")
    return body


def _refuse_unknown(body: Mapping[Any, Any], known: tuple[str, ...], where: str) -> None:
    for name in body:
        if name not in known:
            raise UsageError(f"{where}: unknown word {name!r}", hint=f"use: {', '.join(known)}")


def _setup(name: str, value: Any, where: str) -> SetupSpec:  # noqa: ANN401 (YAML)
    place = f"{where}, setup {name}"
    if not _NAME.match(name):
        raise UsageError(f"{where}: {name!r} is no name", hint="use letters, digits, and . _ + -")
    body = value if value is not None else {}
    if not isinstance(body, dict):
        raise UsageError(f"{place} is not a mapping", hint="write {} for a setup that changes nothing")
    _refuse_unknown(body, _SETUP, place)
    return SetupSpec(
        name,
        extends=_word(body, "extends", place),
        env=_variables(body.get("env"), f"{place}, env"),
        prepend=_variables(body.get("prepend"), f"{place}, prepend"),
        unset=_unset(body.get("unset"), f"{place}, unset"),
        flags=_flags(body.get("flags"), f"{place}, flags"),
        why=_word(body, "why", place),
    )


def _word(body: Mapping[Any, Any], name: str, place: str) -> str:
    """A text of the file; empty where it is not there."""
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{place}: {name} is {_told(value)}, not a text", hint="write it in quotes")
    return _fitting(value or "", f"{place}: {name}")


def _told(value: object) -> str:
    """A value in a message. Lists and mappings may hold themselves, or more than a screen."""
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    return repr(value)


def _fitting(text: str, place: str) -> str:
    """The text, if a process can be given it and a terminal shown it."""
    if any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in text):
        raise UsageError(f"{place} has a letter that no variable can hold: {text!r}", hint="leave it out")
    return text


def _variables(value: Any, place: str) -> dict[str, str]:  # noqa: ANN401 (YAML)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UsageError(f"{place} is not a mapping", hint="write NAME: value")
    found = {}
    for name, text in value.items():
        if not _VARIABLE.match(str(name)):
            raise UsageError(f"{place}: {name!r} is no variable", hint="use letters, digits and _")
        if not isinstance(text, str):
            raise UsageError(
                f"{place}: the value of {name} is {_told(text)}", hint='quote it: "1", "true", "" for empty'
            )
        found[str(name)] = _fitting(text, f"{place}: the value of {name}")
    return found


def _unset(value: Any, place: str) -> tuple[str, ...]:  # noqa: ANN401 (YAML)
    if value is not None and not isinstance(value, list):
        raise UsageError(f"{place} is {_told(value)}, not a list", hint="write [NAME, NAME]")
    names = value or []
    if odd := [name for name in names if not isinstance(name, str)]:
        raise UsageError(f"{place} has {_told(odd[0])}, not a name", hint="write [NAME, NAME]")
    return tuple(_variables(dict.fromkeys(names, ""), place))


def _flags(value: Any, place: str) -> dict[str, Any]:  # noqa: ANN401 (YAML)
    from pydantic import TypeAdapter, ValidationError

    if value is None:
        return {}
    if not isinstance(value, dict):
        raise UsageError(f"{place} is not a mapping", hint="write FLAG: value")
    found = {str(name).replace("-", "_"): flag for name, flag in value.items()}
    _refuse_unknown(found, FLAGS, place)
    types = {entry.name: entry.type for entry in fields(RunSettings)}
    assert all(name in types for name in FLAGS)
    try:
        checked = TypeAdapter(RunSettings).validate_python(found)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(
            f"{place}: {first['loc'][0]} is {_told(first['input'])}", hint=f"{first['msg'].lower()}"
        ) from error
    made = {name: getattr(checked, name) for name in found}
    for name, flag in made.items():
        _fitting(str(flag), f"{place}: {name}")
    return made
