"""How late ranks come to a call on purpose: ``--arrival``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from busbw.errors import UsageError
from busbw.units import format_duration, parse_duration

NONE: Final = "none"
TRACE: Final = "trace"
PATTERNS: Final = (NONE, "late-one", "uniform", "ramp", TRACE)
MOST_S: Final = 10.0  # later, a rank looks as if it hung
_RANGES: Final = ("uniform", "ramp")
_HINT: Final = "write late-one:4ms, uniform:0-10ms, ramp:10ms or trace:FILE"


@dataclass(frozen=True)
class Arrival:
    """``pattern`` is one of PATTERNS; delays lie from ``least_ns`` to ``most_ns``, which is None where they
    are parts of the time of a call. ``path`` is a trace's.
    """

    pattern: str
    least_ns: float = 0.0
    most_ns: float | None = None
    path: str = ""

    @classmethod
    def of(cls, text: str, flag: str = "--arrival") -> Arrival:
        """From ``late-one``, ``late-one:4ms``, ``uniform:0-10ms``, ``trace:FILE``. Raises UsageError."""
        pattern, colon, rest = text.partition(":")
        is_whole = bool(rest) if pattern == TRACE else bool(rest) == bool(colon)
        if pattern not in PATTERNS or not is_whole or (pattern == NONE and colon):
            raise UsageError(f"{flag} {text!r} is unknown", hint=_HINT)
        if pattern == TRACE:
            return cls(pattern, path=rest)
        if not rest:
            return cls(pattern)
        first, dash, last = rest.rpartition("-")
        if dash and pattern not in _RANGES:
            raise UsageError(f"{flag} {text!r}: {pattern} has one delay, not a range", hint=_HINT)
        most_ns = delay_ns(last, flag)
        unit = last.strip().lstrip("0123456789.")
        least_ns = delay_ns(first + ("" if first.strip()[-1:].isalpha() else unit), flag) if dash else 0.0
        if least_ns > most_ns:
            raise UsageError(f"{flag} {text!r}: the range ends before it begins", hint=_HINT)
        return cls(pattern, least_ns, most_ns)


def delay_ns(text: str, flag: str) -> float:
    """One delay, from ``4ms``. Raises UsageError, also for one that is too long."""
    seconds = parse_duration(text, flag)
    if seconds > MOST_S:
        raise UsageError(f"{flag}: {text} is too late", hint=f"give {format_duration(MOST_S)} or less")
    return seconds * 1e9
