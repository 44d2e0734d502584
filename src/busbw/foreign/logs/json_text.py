"""JSON reports that were cut: their good entries are read one by one, up to where the text ends.

Values of a report can be anything. The small readers here give what they are asked for, or nothing.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any, Final

from busbw.foreign.logs.lines import plain, without_prefixes

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_MOST: Final = 2**62
# What a line of a report begins with, and no prefix has in it.
_KNOWN: Final = re.compile(r'[{"]')


@dataclass(frozen=True)
class Document:
    """A JSON object. ``cut_line`` is the line (from 1) where it cannot be read any more; 0 where it can."""

    content: dict[str, Any] = field(default_factory=dict)
    cut_line: int = 0


def document(data: bytes) -> Document | None:
    """The object that a text is, or the beginning of one; None where it is none."""
    text = data.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    try:
        whole = json.loads(text)
    except RecursionError:
        return None
    except ValueError:
        return _beginning(text)
    return Document(whole) if isinstance(whole, dict) else None


def embedded(data: bytes) -> Document | None:
    """The object that begins in a line of a text, behind a launcher's prefix or below other words; None where
    none does. Other words may stand below it, another report may not.
    """
    texts = [plain(line) for line in data.decode("utf-8", "replace").split("\n")]
    lines = [line.text for line in without_prefixes(texts, _start)]
    first = next((number for number, line in enumerate(lines) if line.lstrip().startswith("{")), None)
    if first is None:
        return None
    text = "\n".join(lines[first:]).lstrip()
    try:
        whole, end = json.JSONDecoder().raw_decode(text)
    except RecursionError:
        return None
    except ValueError:
        whole, end = None, 0
    if isinstance(whole, dict) and '"results"' not in text[end:]:
        return Document(whole)
    found = _beginning(text)
    return None if found is None else Document(found.content, found.cut_line + first)


def _start(line: str) -> int:
    match = _KNOWN.search(line)
    return -1 if match is None else match.start()


def _beginning(text: str) -> Document | None:
    """Members up to the first that cannot be read; of a list its first entries."""
    decoder = json.JSONDecoder()
    content: dict[str, Any] = {}
    at = 1
    try:
        while True:
            key, at = decoder.raw_decode(text, _blank(text, at))
            at = _blank(text, at)
            if not isinstance(key, str) or text[at : at + 1] != ":":
                break
            at = _blank(text, at + 1)
            if text[at : at + 1] == "[":
                content[key] = []
                at = _entries(decoder, text, at, content[key])
            else:
                content[key], at = decoder.raw_decode(text, at)
            at = _blank(text, at)
            if text[at : at + 1] != ",":
                break
            at += 1
    except RecursionError:
        return None
    except ValueError as error:
        at = getattr(error, "pos", at)
    return Document(content, text.count("\n", 0, at) + 1) if content else None


def _entries(decoder: json.JSONDecoder, text: str, at: int, entries: list[Any]) -> int:
    """Read the entries of a list, whose bracket stands at ``at``; where it ends."""
    at = _blank(text, at + 1)
    if text[at : at + 1] == "]":
        return at + 1
    while True:
        entry, at = decoder.raw_decode(text, at)
        entries.append(entry)
        at = _blank(text, at)
        if text[at : at + 1] == "]":
            return at + 1
        if text[at : at + 1] != ",":
            raise json.JSONDecodeError("no comma", text, at)
        at = _blank(text, at + 1)


def _blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match is not None else at


def mapping(value: Any) -> dict[str, Any]:  # noqa: ANN401 (JSON)
    """An object, empty for anything else."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:  # noqa: ANN401 (JSON)
    """A list, empty for anything else."""
    return value if isinstance(value, list) else []


def count(value: Any) -> int | None:  # noqa: ANN401 (JSON)
    """A number of something; None for anything else."""
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST
    return value if good else None


def number(value: Any) -> float:  # noqa: ANN401 (JSON)
    """A number within the range of a measurement, NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    return float(value) if abs(value) < 1e18 else math.nan


def is_number(value: Any) -> bool:  # noqa: ANN401 (JSON)
    """Whether it is a number that can have been measured, or the word for none."""
    return value in ("nan", "-nan") or math.isfinite(number(value))


def text_of(value: Any, otherwise: str = "") -> str:  # noqa: ANN401 (JSON)
    """A text as a screen shows it; ``otherwise`` for anything else."""
    return plain(value) if isinstance(value, str) else otherwise
