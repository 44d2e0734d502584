"""JSON that a user may have changed: text that is text, and numbers that are numbers.

Every file of JSON that is kept beside a run is read here. What does not fit is named by its file and key.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final

from busbw.errors import UsageError

DAMAGED_HINT: Final = "it was changed or cut after it was written; restore it from a copy"
_LARGEST: Final = 2**63
# What a number beyond that, an infinite one or none has; only then are the values searched.
_LARGE: Final = re.compile(r"\d{19}|[eE]\+?\d{3}|NaN|Infinity")
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")  # as JSON spells it
_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")


def json_value(text: str, where: str, hint: str) -> Any:  # noqa: ANN401 (JSON)
    """What a JSON text holds. Raises UsageError where it is none, is nested too deeply, has a number that is
    infinite, NaN or beyond 64 bits. Half a character, which no file can hold, becomes U+FFFD.
    """
    try:
        body = json.loads(text)
        odd = next(_odd(body, ""), "") if _LARGE.search(text) else ""
        if _HALF.search(text):
            body = _with_whole_characters(body)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not JSON: {error}", hint=hint) from error
    if odd:
        raise UsageError(f"{where}: {odd}", hint=hint)
    return body


def json_mapping(text: str, where: str, hint: str) -> dict[str, Any]:
    """The object that a JSON text is. Raises UsageError as ``json_value``, and where it is none."""
    body = json_value(text, where, hint)
    if not isinstance(body, dict):
        raise UsageError(f"{where} is not a JSON object", hint=hint)
    return body


def _with_whole_characters(value: Any) -> Any:  # noqa: ANN401 (JSON)
    if isinstance(value, dict):
        return {_with_whole_characters(name): _with_whole_characters(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(_with_whole_characters, value))
    return _HALF_CHARACTER.sub("\ufffd", value) if isinstance(value, str) else value


def _odd(value: object, place: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _odd(each, joined(place, name))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _odd(each, joined(place, index))
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{place} is {value}, which is no number"
    elif isinstance(value, int) and abs(value) >= _LARGEST:
        yield f"{place} is beyond 64 bits"


def joined(*parts: int | str) -> str:
    """The place of a value: names with dots between them, places in a list in brackets."""
    words = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts if part != "")
    return "".join(words).removeprefix(".")
