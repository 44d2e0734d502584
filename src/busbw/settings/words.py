"""Settings back to words: a front process writes them into a job, and the ranks read the same settings."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import MISSING, Field, fields
from typing import TYPE_CHECKING, Any, get_type_hints

from cyclopts import Parameter

from busbw.settings.flag import flag_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def to_words(settings: DataclassInstance, leave_out: Collection[str] = ()) -> tuple[str, ...]:
    """The flags that give these settings, those at their defaults left out; ``leave_out`` names fields.

    Every value is joined to its flag, so that one which starts with a hyphen stays a value.
    """
    hints = get_type_hints(type(settings), include_extras=True)
    words: list[str] = []
    for field in fields(settings):
        value = getattr(settings, field.name)
        if field.name not in leave_out and value != _default(field):
            words += _words(_flag(field.name, hints[field.name]), value)
    return tuple(words)


def _default(field: Field[Any]) -> object:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _flag(name: str, hint: Any) -> str:  # noqa: ANN401 (an annotation)
    """The first name that its Parameter gives, else the field's own."""
    for mark in getattr(hint, "__metadata__", ()):
        if isinstance(mark, Parameter) and mark.name:
            return next(iter(mark.name))
    return flag_of(name)


def _words(flag: str, value: object) -> list[str]:
    if value is True:
        return [flag]
    if value is False:
        return ["--no-" + flag.removeprefix("--")]
    if isinstance(value, tuple):
        return [f"{flag}={item}" for item in value]
    return [f"{flag}={value}"]
