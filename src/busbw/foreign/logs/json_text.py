"""JSON reports, also among other words and cut: each number stays the word that was printed.

Values of a report can be anything. The small readers here give what they are asked for, or nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

from busbw.foreign.logs.lines import plain, without_prefixes

# What a line of a report begins with, and no prefix has in it.
_KNOWN: Final = re.compile(r'[{"]')
_TOKENS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_ENTRY_DEPTH: Final = 2  # of an entry of a list: within the document and its list
_DECODER: Final = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str.lower)


@dataclass(frozen=True)
class Document:
    """A JSON object. ``cut_line`` is the line (from 1) where it cannot be read any more; 0 where it can."""

    content: dict[str, Any] = field(default_factory=dict)
    cut_line: int = 0


def document(data: bytes) -> Document | None:
    """The object that begins in a line of a text, which may stand behind a launcher's prefix or below other
    words; None where none does. Other words may stand below it, another report may not.
    """
    text = data.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    first = 0
    if not text.startswith("{"):
        lines = [line.text for line in without_prefixes([plain(line) for line in text.split("\n")], _start)]
        first = next((number for number, line in enumerate(lines) if line.lstrip().startswith("{")), -1)
        if first < 0:
            return None
        text = "\n".join(lines[first:]).lstrip()
    try:
        whole, end = _DECODER.raw_decode(text)
    except RecursionError:
        return None
    except json.JSONDecodeError as error:
        return _beginning(text, error.pos, first)
    if not isinstance(whole, dict):
        return None
    is_one = '"results"' not in text[end:]
    return Document(whole, 0 if is_one else first + text.count("\n", 0, end) + 1)


def _start(line: str) -> int:
    match = _KNOWN.search(line)
    return -1 if match is None else match.start()


def _beginning(text: str, end: int, first: int) -> Document | None:
    """What stands before a damage, up to the last entry that is whole."""
    around: list[str] = []
    whole, open_brackets = 0, ""
    for token in _TOKENS.finditer(text, 0, end):
        if token[0] in "{[":
            around.append("}" if token[0] == "{" else "]")
        elif token[0] in "}]" and around:
            around.pop()
            if len(around) <= _ENTRY_DEPTH:
                whole, open_brackets = token.end(), "".join(reversed(around))
    try:
        content = _DECODER.decode(text[:whole] + open_brackets)
    except (ValueError, RecursionError):
        return None
    return Document(content, first + text.count("\n", 0, end) + 1) if isinstance(content, dict) else None


def mapping(value: Any) -> dict[str, Any]:  # noqa: ANN401 (JSON)
    """An object, empty for anything else."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:  # noqa: ANN401 (JSON)
    """A list, empty for anything else."""
    return value if isinstance(value, list) else []


def word(value: Any) -> str:  # noqa: ANN401 (JSON)
    """A text or a number as a screen shows it; empty for anything else."""
    return plain(value).strip() if isinstance(value, str) else ""
