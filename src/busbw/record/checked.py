"""Files that a user may have changed, as values: JSON whose numbers are numbers, fields by their types.

What does not fit is named by its key, as ``references[2].points[5].busbw_gb_per_s``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from busbw.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pydantic import TypeAdapter

_LARGEST: Final = 2**63
T = TypeVar("T", bound="DataclassInstance")


def json_mapping(text: str, where: str, hint: str) -> dict[str, Any]:
    """The object that a JSON text is. Raises UsageError where it is none, is nested too deeply, has a
    number that is infinite, NaN or beyond 64 bits, or text with half a character.
    """
    try:
        body = json.loads(text)
        odd = next(_odd(body, ""), "")
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not JSON: {error}", hint=hint) from error
    if not isinstance(body, dict):
        raise UsageError(f"{where} is not a JSON object", hint=hint)
    if odd:
        raise UsageError(f"{where}: {odd}", hint=hint)
    return body


def _odd(value: object, place: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            if not _is_text(name):
                yield f"{_joined(place, ascii(name))} is no text"
            yield from _odd(each, _joined(place, name))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _odd(each, _joined(place, index))
    elif isinstance(value, str) and not _is_text(value):
        yield f"{place} is {value!a}, which is no text"
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{place} is {value}, which is no number"
    elif isinstance(value, int) and abs(value) >= _LARGEST:
        yield f"{place} is beyond 64 bits"


def _is_text(value: str) -> bool:
    """Not with halves of pairs of UTF-16, which JSON can name and nobody can print."""
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def checked(kind: type[T], values: Mapping[str, Any], where: str, hint: str, *, key: str = "") -> T:
    """A dataclass from its fields by name, which stand at ``key`` of the file ``where``. Raises UsageError
    for a field that is missing, of another type, or none of the class.
    """
    from pydantic import ValidationError

    known = {entry.name for entry in fields(kind)}
    if unknown := sorted(values.keys() - known):
        raise UsageError(f"{where}: {_joined(key, unknown[0])} is an unknown key", hint=hint)
    try:
        made: T = _adapter(kind).validate_json(json.dumps(values, default=str), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = _joined(key, *first["loc"])
        raise UsageError(f"{where}: {place}: {first['msg'].lower()}", hint=hint) from error
    return made


def _joined(*parts: int | str) -> str:
    """The place of a value: names with dots between them, places in a list in brackets."""
    words = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts if part != "")
    return "".join(words).removeprefix(".")


@cache
def _adapter(kind: type[T]) -> TypeAdapter[T]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
