"""Manifests as YAML and back, templates that are filled, and patches over them. Pure."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString


def to_yaml(documents: Sequence[dict[str, Any]]) -> str:
    """Documents in block style; texts of several lines as they are."""
    writer = YAML()
    writer.width = 1 << 20  # a folded line would not be what the user wrote
    writer.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    writer.dump_all([_with_blocks(one) for one in documents], text)
    return text.getvalue()


def from_yaml(text: str) -> list[dict[str, Any]]:
    """The documents of a text, as plain values."""
    return list(YAML(typ="safe", pure=True).load_all(text))


def fill(node: Any, values: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """A template with its ``<word>``s replaced. Keys and items whose value is empty are left out, and a list
    in a list's place stands for its items.
    """
    if isinstance(node, dict):
        pairs = {key: fill(value, values) for key, value in node.items()}
        return {key: value for key, value in pairs.items() if not _is_empty(value)}
    if isinstance(node, list):
        found = [fill(item, values) for item in node]
        items = [each if isinstance(each, list) else [each] for each in found]
        return [item for each in items for item in each]
    if isinstance(node, str) and node.startswith("<") and node.endswith(">"):
        return values[node[1:-1]]
    return node


def _is_empty(value: object) -> bool:
    return value is None or (isinstance(value, str | list | dict) and not value)


def merged(value: Any, patch: Any) -> Any:  # noqa: ANN401
    """``value`` with a user's ``patch`` over it: mappings key by key (null takes a key away), lists of named
    objects by their names, anything else replaced.
    """
    if isinstance(value, dict) and isinstance(patch, dict):
        both = value | {key: merged(value.get(key), change) for key, change in patch.items()}
        return {key: each for key, each in both.items() if patch.get(key, each) is not None}
    if isinstance(value, list) and isinstance(patch, list) and (key := _key_of([*value, *patch])):
        found = {item[key]: item for item in value}
        for item in patch:
            found[item[key]] = merged(found[item[key]], item) if item[key] in found else item
        return [*found.values()]
    return patch


def _key_of(items: list[Any]) -> str:
    """By what the objects of a list are known, as Kubernetes itself merges them; empty for other lists."""
    keys = ("mountPath", "name", "key")
    return next((key for key in keys if all(isinstance(each, dict) and key in each for each in items)), "")


def _with_blocks(value: Any) -> Any:  # noqa: ANN401 (what YAML can hold)
    if isinstance(value, dict):
        return {key: _with_blocks(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_blocks(item) for item in value]
    # Printable lines only: a block takes no other characters, and no trailing spaces.
    if (
        isinstance(value, str)
        and value.endswith("\n")
        and value.isascii()
        and value.replace("\n", "").isprintable()
    ):
        return LiteralScalarString(value)
    return value
