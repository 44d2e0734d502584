"""Manifests as YAML, and back."""

from __future__ import annotations

import io
from collections.abc import Sequence
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
