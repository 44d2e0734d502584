"""Sizes, durations and bandwidths: parsed, formatted and converted here and nowhere else.

Sizes are powers of 1024 (as in nccl-tests: 1K = 1024 bytes); bandwidths are decimal (1 GB/s = 10^9 bytes/s).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final

from busbw.errors import UsageError

NS_PER_US: Final = 1e3
_FACTORS: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(I?B|)", re.IGNORECASE)
_NUMBERED: Final = re.compile(r"(.*?)(\d+)(\D*)")  # a name with its last number
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|min|m|h|d|)")
_ONE_DECIMAL: Final = 0.09995
_WHOLE_PERCENT: Final = 0.9995
_LEAST_FACTOR: Final = 9.995
_LARGEST_FACTOR: Final = 1000.0
_MOST_DECIMALS: Final = 5
_LEAST_GB_PER_S: Final = 0.0001
_TOO_MANY_BYTES: Final = 2**63
_MOST_YEARS: Final = 100  # timers and counters of nanoseconds end at 292
_MINUTES: Final = {"m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_TIMES: Final = (("s", 1e9), ("ms", 1e6), ("us", 1e3))
_SECONDS: Final = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, **_MINUTES}


def _of(flag: str) -> str:
    return f"{flag}: " if flag else ""


def parse_size(text: str, flag: str = "") -> int:
    """Bytes in ``text``, which ``flag`` was given: "8", "64K", "1.5G", "4MiB". KB and MB are refused, since
    they mean two things.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"{_of(flag)}not a size: {text!r}", hint="write bytes, or a number with K, M or G: 8, 64K, 1.5G"
        )
    number, prefix, suffix = match.group(1), match.group(2).upper(), match.group(3).upper()
    if prefix and suffix == "B":
        raise UsageError(
            f"{_of(flag)}ambiguous size: {text!r} (10^3 or 2^10?)",
            hint=f"write {number}{prefix} or {number}{prefix}iB for powers of 1024",
        )
    size = float(number) * _FACTORS[prefix]
    if size >= _TOO_MANY_BYTES:
        raise UsageError(f"{_of(flag)}{text!r} is 2^63 bytes or more", hint="give a size that memory holds")
    if size != int(size):
        raise UsageError(
            f"{_of(flag)}not a whole number of bytes: {text!r}", hint="write whole bytes, or round"
        )
    return int(size)


def format_size(size_bytes: int) -> str:
    """The shortest exact form with a power of 1024: 8 B, 64 KiB, 1 GiB; plain bytes where none is exact."""
    for prefix in ("T", "G", "M", "K"):
        if size_bytes and size_bytes % _FACTORS[prefix] == 0:
            return f"{size_bytes // _FACTORS[prefix]} {prefix}iB"
    return f"{size_bytes} B"


def format_approximate_size(size_bytes: float) -> str:
    """A size for reading: 3.2 GiB."""
    for prefix in ("T", "G", "M", "K"):
        if size_bytes >= _FACTORS[prefix]:
            return f"{size_bytes / _FACTORS[prefix]:.1f} {prefix}iB"
    return f"{size_bytes:.0f} B"


def decimals(typical: float, least: int) -> int:
    """How many show three digits of a ``typical`` value, so that slow networks differ; ``least`` or more."""
    return max(least, min(_MOST_DECIMALS, 2 - math.floor(math.log10(typical)))) if typical > 0 else least


def parse_duration(text: str, flag: str = "") -> float:
    """Seconds in ``text``, which ``flag`` was given: "30", "500ms", "2min", "1h"."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{_of(flag)}not a duration: {text!r}", hint="write 500ms, 30s, 2min, 1h or 30d")
    return countable_seconds(float(match.group(1)) * _SECONDS[match.group(2)], flag)


def countable_seconds(seconds: float, flag: str = "") -> float:
    """The seconds that ``flag`` was given, if timers can count them: from 0 to 100 years."""
    if not 0 <= seconds <= _MOST_YEARS * 365 * 86400:
        raise UsageError(
            f"{_of(flag)}{seconds:g} seconds are not between 0 and {_MOST_YEARS} years",
            hint="give fewer, or 0 where that is no limit" if seconds > 0 else "give 0 or more",
        )
    return seconds


def parse_fraction(text: str, flag: str = "", *, below: float = 1.0) -> float:
    """A share of one in ``text``, which ``flag`` was given: "1%", "0.01"; of what can be many times longer,
    ``below`` more than one.
    """
    stripped = text.strip()
    try:
        value = float(stripped.removesuffix("%")) / (100 if stripped.endswith("%") else 1)
    except ValueError as error:
        raise UsageError(f"{_of(flag)}not a fraction: {text!r}", hint="write 1% or 0.01") from error
    if not 0 < value < below:
        raise UsageError(f"{_of(flag)}{text!r} is not between 0 and {below:g}", hint="write 1% or 0.01")
    return value


def format_number(value: float, digits: int = 3) -> str:
    """A value with so many significant digits, never with an exponent: 488, 0.0123, 12345."""
    if value == 0:
        return "0"
    value = float(f"{value:.{digits}g}")
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def format_gb_per_s(value: float) -> str:
    """A bandwidth for reading, without its unit, to four decimals at most: 487.3, 1.095, 0.264, 0.0011. What
    is there is not shown as none: <0.0001.
    """
    if abs(value) >= 1 or value == 0:
        return format_number(value, 4)
    if abs(value) < _LEAST_GB_PER_S / 2:
        return f"<{_LEAST_GB_PER_S}"
    return f"{value:.{min(4, 2 - math.floor(math.log10(abs(value))))}f}"


def format_time(time_ns: float, digits: int = 3) -> str:
    """The time of a call, with its unit: 820 ns, 11.5 us, 32.8 ms."""
    rounded = float(f"{time_ns:.{digits}g}")  # 999.9 us is 1 ms with three digits
    unit, length = next(((unit, length) for unit, length in _TIMES if rounded >= length), ("ns", 1.0))
    return f"{format_number(time_ns / length, digits)} {unit}"


def format_duration(seconds: float) -> str:
    """A duration for reading: 1:02:03, 4:05, 7.3 s, 12 ms."""
    if seconds >= 60:
        minutes, rest = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"


def format_age(seconds: float) -> str:
    """How long ago, in one unit: 40 s, 5 min, 3 h, 12 d."""
    for unit, length, most in (("s", 1, 60), ("min", 60, 3600), ("h", 3600, 2 * 86400)):
        if seconds < most:
            return f"{max(seconds, 0) // length:.0f} {unit}"
    return f"{seconds // 86400:.0f} d"


def format_flag_size(size_bytes: int) -> str:
    """A size as flags take it: 8, 64K, 1G."""
    return format_size(size_bytes).removesuffix("iB").removesuffix(" B").replace(" ", "")


def counted(count: int, word: str) -> str:
    """A number with its noun: ``1 host``, ``2 hosts``."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def were(count: int) -> str:
    """``was`` of one, ``were`` of others."""
    return "was" if count == 1 else "were"


def first_of(words: Iterable[str], most: int, separator: str = ", ") -> str:
    """The first ``most`` of the words, and how many more there are: ``a, b and 3 more``."""
    words = tuple(words)
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return separator.join(words[:most]) + more


def name_ranges(names: Iterable[str]) -> list[str]:
    """Names that differ in a number only, together as Slurm writes them: ``h[1-3,5-6]``."""
    found: dict[tuple[str, str], list[list[str]]] = {}
    for name in names:
        parts = _NUMBERED.fullmatch(name)
        before, number, behind = parts.groups() if parts is not None else (name, "", "")
        runs = found.setdefault((before, behind), [])
        last = runs[-1][-1] if runs else ""
        if last and number == f"{int(last) + 1:0{len(last)}}":
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    made = []
    for (before, behind), runs in found.items():
        numbers = ",".join("-".join(run) for run in runs)
        made.append(
            f"{before}[{numbers}]{behind}" if re.search("[-,]", numbers) else before + numbers + behind
        )
    return made


def gb_per_s(size_bytes: float, duration_ns: float) -> float:
    """Decimal gigabytes a second: bytes per nanosecond are the same number."""
    return size_bytes / duration_ns


def format_share(value: float, sign: str = "", decimals: int = 1) -> str:
    """A ratio in percent with three digits at most, from ten times on as a factor: 0.4%, 97.1%, 50x. What is
    there is not shown as none. ``sign`` "+" shows that of a positive one, too.
    """
    size, least = abs(value), 10.0 ** -(decimals + 2)
    if 0 < size < least:
        return f"under {least:.{decimals}%}"
    if size >= _LARGEST_FACTOR:
        return f"over {_LARGEST_FACTOR:.0f}x"
    if size >= _LEAST_FACTOR:
        return f"{value:{sign}.0f}x"
    digits = 0 if size >= _WHOLE_PERCENT else min(decimals, 1) if size >= _ONE_DECIMAL else decimals
    return f"{value:{sign}.{digits}%}"


def format_share_short(value: float, decimals: int = 1) -> str:
    """The same for a column: <0.1%, >1000x."""
    return format_share(value, "", decimals).replace("under ", "<").replace("over ", ">")


def ranges(numbers: Iterable[int]) -> str:
    """``0-2,5``: neighbours together."""
    return "".join(name_ranges(map(str, sorted(numbers)))).strip("[]")
