"""The types of flags' values: each is read once, at the edge, and keeps the text that it was read from.

A command line, ``BUSBW_*`` variables and presets come through cyclopts (``_read_token``), spec files and the
requests of jobs through pydantic (``Written.__get_pydantic_core_schema__``); both call the class. Ranges of
plain numbers stand beside their flags (``Between``, ``OneOf``, ...) and are checked where settings are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

from cyclopts import Parameter, Token

from busbw.errors import UsageError
from busbw.model.datatype import DATA_TYPES, REDUCE_OPS, DataType, ReduceOp, data_type, reduce_op
from busbw.plan.flags.flag import flag_of
from busbw.units import countable_seconds, parse_duration, parse_fraction, parse_size

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pydantic import TypeAdapter

    _Settings = TypeVar("_Settings", bound=DataclassInstance)

MOST: Final = 2**31 - 1  # of what is counted: libraries and the native core take no larger ones
MOST_SEED: Final = 2**63 - 1
MOST_CALLS: Final = 10**15  # no run ends of itself that late; samples of them still add up in 64 bits
MOST_TIMES: Final = 1000.0  # latency that is so many times longer is a message that hangs
MOST_PARTS: Final = 64  # of a call with --coalesce: as the native core takes
LARGEST_RATIO: Final = 1_000_000
ALL: Final = "all"
_MOST_SHOWN: Final = 60  # characters of a value that is refused
_MOST_DIGITS: Final = 18  # such a number is below 2^63


# ---- values that are read from text -------------------------------------------------------------------


def _read_token(kind: type, tokens: Sequence[Token]) -> Any:  # noqa: ANN401 (a value of that kind)
    (token,) = tokens
    return kind(token.value, token.keyword or "")


class Written:
    """A value with the ``text`` that a user wrote for it, which the record keeps."""

    text: str

    def __init_subclass__(cls) -> None:
        Parameter(converter=_read_token, n_tokens=1, accepts_keys=False)(cls)

    def __new__(cls, written: Any, flag: str = "") -> Self:  # noqa: ANN401 (text, or a plain value)
        """Raises UsageError, which names ``flag``."""
        made = super().__new__(cls, cls.read(written, flag))  # type: ignore[call-arg]  # of int, tuple, ...
        made.text = as_text(written)
        return made

    @classmethod
    def read(cls, written: Any, flag: str) -> Any:  # noqa: ANN401, ARG003
        """The value: here the text itself. Raises UsageError, which names ``flag``."""
        return as_text(written)

    def __str__(self) -> str:
        return self.text

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:  # noqa: ANN401 (pydantic's)
        from pydantic_core import core_schema

        flag = flag_of(handler.field_name) if handler.field_name else ""

        def read(value: Any) -> Any:  # noqa: ANN401
            return value if isinstance(value, cls) else cls(value, flag)

        return core_schema.no_info_plain_validator_function(read)


def as_text(written: Any) -> str:  # noqa: ANN401
    """What a user would have written for a plain value."""
    if isinstance(written, str):
        return written
    if isinstance(written, Iterable):
        return ",".join(map(str, written))
    is_whole = isinstance(written, float) and written.is_integer()
    return str(int(written) if is_whole else written)


class Size(Written, int):
    """Bytes, from ``64K`` or ``1.5G``."""

    @classmethod
    def read(cls, written: str | int, flag: str) -> int:
        return parse_size(written, flag) if isinstance(written, str) else written


class Seconds(Written, float):
    """Seconds, from ``500ms`` or ``2min``."""

    @classmethod
    def read(cls, written: str | float, flag: str) -> float:
        return parse_duration(written, flag) if isinstance(written, str) else written


class SecondsOrOff(Seconds):
    """Seconds; 0, from ``off``, for never."""

    @classmethod
    def read(cls, written: str | float, flag: str) -> float:
        return 0.0 if written == "off" else super().read(written, flag)


class Fraction(Written, float):
    """A share of one, from ``1%`` or ``0.01``."""

    below = 1.0

    @classmethod
    def read(cls, written: str | float, flag: str) -> float:
        return parse_fraction(as_text(written), flag, below=cls.below)


class Growth(Fraction):
    """By how much longer something takes, from ``50%`` (half as long again) or ``2`` (three times)."""

    below = MOST_TIMES


def _words(written: object, what: str) -> list[str]:
    """The parts between commas. Raises UsageError where there is none: no ``what``."""
    words = [word.strip() for word in as_text(written).split(",") if word.strip()]
    if not words:
        raise UsageError(f"no {what} given", hint="name one, or several separated by commas")
    return words


class DataTypes(Written, tuple[DataType, ...]):
    """Element types without repetition, also by an alias."""

    @classmethod
    def read(cls, written: str | Iterable[str], flag: str) -> Iterable[DataType]:  # noqa: ARG003 (errors name the type)
        words = _words(written, "element type")
        return DATA_TYPES if words == [ALL] else dict.fromkeys(map(data_type, words))

    @property
    def is_all(self) -> bool:
        """Whether they were not named one by one."""
        return _words(self.text, "") == [ALL]


class ReduceOps(Written, tuple[ReduceOp, ...]):
    """Reductions without repetition."""

    @classmethod
    def read(cls, written: str | Iterable[str], flag: str) -> Iterable[ReduceOp]:  # noqa: ARG003
        words = _words(written, "reduction")
        return REDUCE_OPS if words == [ALL] else dict.fromkeys(map(reduce_op, words))


class Roots(Written, tuple[int, ...]):
    """Ranks that are roots in turn; none where all are, as ``all`` and ``-1`` say."""

    @classmethod
    def read(cls, written: str | Iterable[int], flag: str) -> Iterable[int]:  # noqa: ARG003
        words = _words(written if isinstance(written, str) else list(written) or ALL, "root")
        try:
            return () if words in ([ALL], ["-1"]) else dict.fromkeys(map(int, words))
        except ValueError as error:
            hint = "give ranks separated by commas, or all"
            raise UsageError(f"{as_text(written)!r} is not a root", hint=hint) from error

    def among(self, ranks: int) -> list[int]:
        """The roots of that many ranks."""
        return list(self) or list(range(ranks))


class Ratios(Written, tuple[int, ...]):
    """The ratios of a call's parallel parts, from ``1,2,1`` or ``[1,2,1]``; none for an empty text."""

    @classmethod
    def read(cls, written: str | Iterable[int], flag: str) -> tuple[int, ...]:
        text = as_text(written)
        given = ratios(text) if text else ()
        if text and not (1 < len(given) <= MOST_PARTS and all(0 < ratio <= LARGEST_RATIO for ratio in given)):
            raise UsageError(
                f"{flag or '--coalesce'} {text!r} is not a list of ratios",
                hint=f"give 2 to {MOST_PARTS} whole numbers from 1 to {LARGEST_RATIO}: 1,2,1",
            )
        return given


def ratios(text: str) -> tuple[int, ...]:
    """The whole numbers of a list such as [1,2,1], with or without brackets; 0 for what is none."""
    words = text.strip().removeprefix("[").removesuffix("]").split(",")
    return tuple(
        int(word) if word.isdecimal() and len(word) <= _MOST_DIGITS else 0 for word in map(str.strip, words)
    )


# ---- ranges of plain numbers --------------------------------------------------------------------------


class Check(Protocol):
    """What stands in a flag's annotation beside its Parameter."""

    def check(self, flag: str, value: Any) -> None:  # noqa: ANN401 (of the flag's type)
        """Raises UsageError, which names ``flag``."""


@dataclass(frozen=True)
class Between:
    """A whole number from ``least`` to ``most``."""

    least: int
    most: int = MOST

    def check(self, flag: str, value: int) -> None:
        if value < self.least:
            raise UsageError(f"{flag} {value} is too small", hint=f"give {self.least} or more")
        if value > self.most:
            raise UsageError(f"{flag} is too large", hint=f"give {self.most} or less")


@dataclass(frozen=True)
class OneOf:
    """One of a few numbers."""

    known: tuple[int, ...]

    def check(self, flag: str, value: int) -> None:
        if value not in self.known:
            raise UsageError(
                f"{flag} {value} is unknown", hint=f"use one of: {', '.join(map(str, self.known))}"
            )


class LeavesTime:
    """A duration that is not 0."""

    def check(self, flag: str, value: float) -> None:
        if value <= 0:
            raise UsageError(f"{flag} leaves no time to measure", hint=f"give {flag} 500ms or more")


class Countable:
    """Seconds that timers can count."""

    def check(self, flag: str, value: float) -> None:
        countable_seconds(value, flag)


class Ranged:
    """Settings some of which have a range."""

    def __post_init__(self) -> None:
        """Raises UsageError for a value outside of its flag's range."""
        for each in fields(self):  # type: ignore[arg-type]  # a dataclass of settings
            value = getattr(self, each.name)
            for check in each.metadata.get("ranges", ()) if value is not None else ():
                check.check(each.metadata["typed"], value)


# ---- settings to plain values, and back ---------------------------------------------------------------


def as_written(settings: DataclassInstance) -> dict[str, Any]:
    """Settings as a record keeps them: plain JSON values, and texts as users wrote them."""
    values = ((each.name, getattr(settings, each.name)) for each in fields(settings))
    return {
        name: value.text if hasattr(value, "text") else list(value) if isinstance(value, tuple) else value
        for name, value in values
    }


def changed(settings: DataclassInstance) -> dict[str, Any]:
    """What is not at its default, as plain JSON values that are parsed already: bytes, seconds, names."""
    plain = type(settings)()
    return {
        each.name: _plain(value)
        for each in fields(settings)
        if (value := getattr(settings, each.name)) != getattr(plain, each.name)
    }


def _plain(value: Any) -> Any:  # noqa: ANN401 (a setting)
    if is_dataclass(value) and not isinstance(value, type):
        return changed(value)
    if isinstance(value, tuple):
        return [item.name if isinstance(item, DataType | ReduceOp) else item for item in value]
    if isinstance(value, Written) and isinstance(value, int | float):
        return int(value) if isinstance(value, int) else float(value)
    return value


def read_settings(kind: type[_Settings], plain: Mapping[str, Any]) -> _Settings:
    """Settings from plain values: those of ``changed``, or texts. Raises UsageError, which names the flag."""
    from pydantic import ValidationError

    try:
        made: _Settings = _adapter(kind).validate_python(dict(plain))
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(
            f"{flag_of(str(first['loc'][0]))}: {repr(first['input'])[:_MOST_SHOWN]}: {first['msg']}",
            hint="write what the flag takes",
        ) from error
    return made


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
