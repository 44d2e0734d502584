"""Values of flags that must lie in a range; each refusal names the flag."""

from __future__ import annotations

from busbw.errors import UsageError


def at_least(flag: str, value: int, least: int) -> int:
    """The value. Raises UsageError below ``least``."""
    if value < least:
        raise UsageError(f"{flag} {value} is too small", hint=f"give {least} or more")
    return value


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
