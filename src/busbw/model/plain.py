"""Values from plain JSON fields, by their annotations: ranks have no pydantic."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")


def from_plain(kind: type[T], plain: Mapping[str, Any]) -> T:
    """The inverse of ``dataclasses.asdict``, also by way of JSON. Fields that ``kind`` does not have, because
    another version of busbw wrote them, are left out. Raises TypeError where one without a default is
    missing, and ValueError for an unknown word of an enumeration.
    """
    made: T = _reader(kind)(plain)  # type: ignore[arg-type]  # a class can be hashed
    return made


def to_bytes(value: DataclassInstance) -> bytes:
    """A dataclass as compact JSON, for another rank."""
    return json.dumps(asdict(value), separators=(",", ":")).encode()


def from_bytes(kind: type[T], data: bytes) -> T:
    """Undo ``to_bytes``, also that of another version of busbw; raises as ``from_plain``."""
    return from_plain(kind, json.loads(data))


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:  # noqa: ANN401 (an annotation)
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        readers = {each.name: _reader(hints[each.name]) for each in fields(kind)}
        return lambda plain: kind(
            **{name: readers[name](own) for name, own in plain.items() if name in readers}
        )
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    inner = get_args(kind)
    if get_origin(kind) is tuple:
        parts = [_reader(each) for each in inner if each is not Ellipsis]
        if Ellipsis in inner:
            return lambda plain: tuple(map(parts[0], plain))
        return lambda plain: tuple(part(own) for part, own in zip(parts, plain, strict=True))
    if get_origin(kind) in (Union, UnionType) and NoneType in inner and len(inner) == 2:
        (known,) = set(inner) - {NoneType}
        read = _reader(known)
        return lambda plain: None if plain is None else read(plain)
    return lambda plain: plain
