"""The types of flags' values: each is read once, at the edge, and keeps the text that it was read from.

A command line, ``BUSBW_*`` variables and presets come through cyclopts (``_read_token``), spec files and the
requests of jobs through pydantic (``Written.__get_pydantic_core_schema__``); both call the class. Ranges of
plain numbers stand beside their flags (``Between``, ``OneOf``, ...) and are checked where settings are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

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


class Written:
    """A value with the ``text`` that a user wrote for it, which the record keeps."""

    text: str

    def __str__(self) -> str:
        return self.text

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:  # noqa: ANN401 (pydantic's)
        from pydantic_core import core_schema

        flag = flag_of(handler.field_name) if handler.field_name else ""

        def read(value: Any) -> Any:  # noqa: ANN401
            return value if isinstance(value, cls) else cls(value, flag)  # type: ignore[call-arg]

        return core_schema.no_info_plain_validator_function(read)


def _read_token(kind: type, tokens: Sequence[Token]) -> Any:  # noqa: ANN401 (a value of that kind)
    (token,) = tokens
    return kind(token.value, token.keyword or "")


one_word: Final = Parameter(converter=_read_token, n_tokens=1, accepts_keys=False)


@one_word
class Size(Written, int):
    """Bytes, from ``64K`` or ``1.5G``."""

    def __new__(cls, written: str | int, flag: str = "") -> Size:
        """Raises UsageError, which names ``flag``."""
        made = super().__new__(cls, parse_size(written, flag) if isinstance(written, str) else written)
        made.text = str(written)
        return made


@one_word
class Seconds(Written, float):
    """Seconds, from ``500ms`` or ``2min``."""

    def __new__(cls, written: str | float, flag: str = "") -> Seconds:
        """Raises UsageError, which names ``flag``."""
        made = super().__new__(cls, parse_duration(written, flag) if isinstance(written, str) else written)
        made.text = written if isinstance(written, str) else f"{written:g}"
        return made


@one_word
class SecondsOrOff(Seconds):
    """Seconds; 0, from ``off``, for never."""

    def __new__(cls, written: str | float, flag: str = "") -> SecondsOrOff:
        """Raises UsageError, which names ``flag``."""
        seconds = 0.0 if written == "off" else Seconds(written, flag)
        made = float.__new__(cls, seconds)
        made.text = str(written)
        return made


@one_word
class Fraction(Written, float):
    """A share of one, from ``1%`` or ``0.01``."""

    below = 1.0

    def __new__(cls, written: str | float, flag: str = "") -> Fraction:
        """Raises UsageError, which names ``flag``."""
        text = written if isinstance(written, str) else f"{written:g}"
        made = super().__new__(cls, parse_fraction(text, flag, below=cls.below))
        made.text = text
        return made


@one_word
class Growth(Fraction):
    """By how much longer something takes, from ``50%`` (half as long again) or ``2`` (three times)."""

    below = MOST_TIMES


def _words(written: str | Iterable[object], what: str) -> tuple[str, list[str]]:
    """The text, and its parts between commas. Raises UsageError where there is none: no ``what``."""
    text = written if isinstance(written, str) else ",".join(map(str, written))
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise UsageError(f"no {what} given", hint="name one, or several separated by commas")
    return text, words


@one_word
class DataTypes(Written, tuple[DataType, ...]):
    """Element types without repetition. ``is_all``: they were not named one by one."""

    is_all: bool

    def __new__(cls, written: str | Iterable[str], flag: str = "") -> DataTypes:  # noqa: ARG004 (errors name the type)
        """Raises UsageError for an unknown one, or for none."""
        text, words = _words(written, "element type")
        # What is named twice, also by an alias, is measured once.
        types = DATA_TYPES if words == [ALL] else tuple(dict.fromkeys(map(data_type, words)))
        made = super().__new__(cls, types)
        made.text, made.is_all = text, words == [ALL]
        return made


@one_word
class ReduceOps(Written, tuple[ReduceOp, ...]):
    """Reductions without repetition."""

    def __new__(cls, written: str | Iterable[str], flag: str = "") -> ReduceOps:  # noqa: ARG004
        """Raises UsageError for an unknown one, or for none."""
        text, words = _words(written, "reduction")
        made = super().__new__(
            cls, REDUCE_OPS if words == [ALL] else tuple(dict.fromkeys(map(reduce_op, words)))
        )
        made.text = text
        return made


@one_word
class Roots(Written, tuple[int, ...]):
    """Ranks that are roots in turn; none where all are, as ``all`` and ``-1`` say."""

    def __new__(cls, written: str | Iterable[int], flag: str = "") -> Roots:  # noqa: ARG004
        """Raises UsageError for what is no rank's number, or for none."""
        text, words = _words(written if isinstance(written, str) else list(written) or ALL, "root")
        try:
            roots = () if words in ([ALL], ["-1"]) else dict.fromkeys(map(int, words))
        except ValueError as error:
            raise UsageError(
                f"{text!r} is not a root", hint="give ranks separated by commas, or all"
            ) from error
        made = super().__new__(cls, roots)
        made.text = text
        return made

    def among(self, ranks: int) -> list[int]:
        """The roots of that many ranks."""
        return list(self) or list(range(ranks))


@one_word
class Ratios(Written, tuple[int, ...]):
    """The ratios of a call's parallel parts, from ``1,2,1`` or ``[1,2,1]``; none for an empty text."""

    def __new__(cls, written: str | Iterable[int], flag: str = "") -> Ratios:
        """Raises UsageError."""
        text = written if isinstance(written, str) else ",".join(map(str, written))
        given = ratios(text) if text else ()
        if text and not (1 < len(given) <= MOST_PARTS and all(0 < ratio <= LARGEST_RATIO for ratio in given)):
            raise UsageError(
                f"{flag or '--coalesce'} {text!r} is not a list of ratios",
                hint=f"give 2 to {MOST_PARTS} whole numbers from 1 to {LARGEST_RATIO}: 1,2,1",
            )
        made = super().__new__(cls, given)
        made.text = text
        return made


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
        """See Check."""
        if value < self.least:
            raise UsageError(f"{flag} {value} is too small", hint=f"give {self.least} or more")
        if value > self.most:
            raise UsageError(f"{flag} is too large", hint=f"give {self.most} or less")


@dataclass(frozen=True)
class OneOf:
    """One of a few numbers."""

    known: tuple[int, ...]

    def check(self, flag: str, value: int) -> None:
        """See Check."""
        if value not in self.known:
            raise UsageError(
                f"{flag} {value} is unknown", hint=f"use one of: {', '.join(map(str, self.known))}"
            )


class LeavesTime:
    """A duration that is not 0."""

    def check(self, flag: str, value: float) -> None:
        """See Check."""
        if value <= 0:
            raise UsageError(f"{flag} leaves no time to measure", hint=f"give {flag} 500ms or more")


class Countable:
    """Seconds that timers can count."""

    def check(self, flag: str, value: float) -> None:
        """See Check."""
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
    return {each.name: _written(getattr(settings, each.name)) for each in fields(settings)}


def _written(value: Any) -> Any:  # noqa: ANN401 (a setting)
    if hasattr(value, "text"):
        return value.text
    return list(value) if isinstance(value, tuple) else value


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
