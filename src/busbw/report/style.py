"""The colours of everything on a terminal: the one place that decides them, and what has one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.text import Text

# Of sixteen that every terminal has on its own background, dark or light.
STYLES: Final[Mapping[str, str]] = {
    "c1": "bold blue", "c2": "yellow", "c3": "green", "c4": "magenta", "c5": "red", "c6": "cyan",
    "limit": "red", "reference": "dim", "soft": "dim", "bold": "bold", "failed": "reverse", "none": "magenta",
    "low2": "bold cyan", "low1": "cyan", "mid": "dim", "high1": "yellow", "high2": "bold red",
    "s1": "bold red", "s2": "yellow", "s3": "dim", "s4": "dim", "s5": "cyan", "s6": "bold cyan",
    "yes": "bold green", "no": "bold red", "undecided": "bold yellow",
}  # fmt: skip

# Words that are an answer. A row's mark is its last word.
_WORDS: Final[Mapping[str, str]] = {
    r"\b(WRONG|FAILED|SLOWER|SLOW|slower|below)\b|(?<![\w/-])failed(?![\w/.-])|\bNO\b(?=  )": "no",
    r"\b(FASTER|HEALTHY|faster|as expected|no wrong data)\b|\bYES\b": "yes",
    r"\b(AMBIGUOUS|COULD NOT DECIDE|undecided|cannot tell)\b|^# (warning)\b": "undecided",
    r"\b(stopped|unstable|descheduled|throttled|clock|part-alone)(\((out|in)\))?$": "c2",
}
_DETAIL: Final = re.compile(r"# (library|devices|time|buffers|record|ranks|busbw|note|cases|scatter)\b")


def painted(line: str) -> Text:
    """A line for a terminal: answers in colour, detail dim."""
    from rich.text import Text

    text = Text(line)
    if _DETAIL.match(line):
        text.stylize(STYLES["soft"])
        return text
    for pattern, name in _WORDS.items():
        text.highlight_regex(pattern, STYLES[name])
    return text
