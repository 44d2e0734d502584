"""Values of flags that must lie in a range; each refusal names the flag."""

from __future__ import annotations

from typing import Final

from busbw.errors import UsageError

MOST: Final = 2**31 - 1  # of what is counted: libraries and the native core take no larger ones
MOST_SEED: Final = 2**63 - 1
MOST_CALLS: Final = 10**15  # no run ends of itself that late; samples of them still add up in 64 bits
_MOST_DIGITS: Final = 18  # such a number is below 2^63


def at_least(flag: str, value: int, least: int, most: int = MOST) -> int:
    """The value. Raises UsageError below ``least`` and above ``most``."""
    if value < least:
        raise UsageError(f"{flag} {value} is too small", hint=f"give {least} or more")
    if value > most:
        raise UsageError(f"{flag} is too large", hint=f"give {most} or less")
    return value


def ratios(text: str) -> tuple[int, ...]:
    """The whole numbers of a list such as [1,2,1], with or without brackets; 0 for what is none."""
    words = text.strip().removeprefix("[").removesuffix("]").split(",")
    return tuple(
        int(word) if word.isdecimal() and len(word) <= _MOST_DIGITS else 0 for word in map(str.strip, words)
    )


def positive(flag: str, seconds: float) -> float:
    """The duration. Raises UsageError where it is none."""
    if seconds <= 0:
        raise UsageError(f"{flag} leaves no time to measure", hint=f"give {flag} 500ms or more")
    return seconds


def one_of(flag: str, value: int, known: tuple[int, ...]) -> int:
    """The value. Raises UsageError where it is not known."""
    if value not in known:
        raise UsageError(f"{flag} {value} is unknown", hint=f"use one of: {', '.join(map(str, known))}")
    return value
