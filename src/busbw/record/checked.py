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

T = TypeVar("T", bound="DataclassInstance")


def checked(
    kind: type[T], values: Mapping[str, Any], where: str, hint: str, *, key: str = "", is_open: bool = False
) -> T:
    """A dataclass from its fields by name, which stand at ``key`` of the file ``where``. Raises UsageError
    for a field that is missing, of another type, or none of the class; ``is_open``: it may have others.
    """
    from pydantic import ValidationError

    known = {entry.name for entry in fields(kind)}
    if not is_open and (unknown := sorted(values.keys() - known)):
        raise UsageError(f"{where}: {joined(key, unknown[0])} is an unknown key", hint=hint)
    try:
        made: T = _adapter(kind).validate_json(json.dumps(values, default=str), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = joined(key, *first["loc"])
        raise UsageError(f"{where}: {place}: {first['msg'].lower()}", hint=hint) from error
    return made


@cache
def _adapter(kind: type[T]) -> TypeAdapter[T]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
