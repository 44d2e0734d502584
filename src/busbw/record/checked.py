"""Values of files that a user may have changed, with fields by their types.

What does not fit is named by its file and key, as ``references[2].points[5].busbw_gb_per_s``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from busbw.errors import UsageError
from busbw.record.json_text import joined

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pydantic import TypeAdapter

T = TypeVar("T")
D = TypeVar("D", bound="DataclassInstance")


def checked(kind: type[D], values: Mapping[str, Any], where: str, hint: str, *, key: str = "") -> D:
    """A dataclass from its fields by name, which stand at ``key`` of the file ``where``. Raises UsageError
    for a field that is missing, of another type, or none of the class.
    """
    known = {entry.name for entry in fields(kind)}
    if unknown := sorted(values.keys() - known):
        raise UsageError(f"{where}: {joined(key, unknown[0])} is an unknown key", hint=hint)
    made: D = validated(adapter(kind), json.dumps(values, default=str), where, hint, key=key)
    return made


def validated(adapter: TypeAdapter[T], text: str, where: str, hint: str, *, key: str = "") -> T:
    """What pydantic makes of a JSON text. Raises UsageError with the first place that does not fit, and
    the number there.
    """
    from pydantic import ValidationError

    try:
        return adapter.validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        is_number = isinstance(first["input"], int | float) and not isinstance(first["input"], bool)
        found = f" is {first['input']}" if is_number else ""
        place = joined(key, *first["loc"])
        raise UsageError(f"{where}: {place}{found}: {first['msg'].lower()}", hint=hint) from error


@cache
def adapter(kind: type[D]) -> TypeAdapter[D]:
    """Validation and JSON schema of a dataclass."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
