"""The colours of everything on a terminal: the one place that decides them, and what has one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.text import Text

# Words that are an answer, in colours that every terminal has on its own background, dark or light. A row's
# mark is its last word.
_WORDS: Final[Mapping[str, str]] = {
    r"\b(WRONG|FAILED|SLOWER|SLOW|slower|below)\b|(?<![\w/-])failed(?![\w/.-])|\bNO\b(?=  )": "bold red",
    r"\b(FASTER|HEALTHY|faster|as expected|no wrong data)\b|\bYES\b": "bold green",
    r"\b(AMBIGUOUS|COULD NOT DECIDE|undecided|cannot tell)\b|^# (warning)\b": "bold yellow",
    r"\b(stopped|unstable|descheduled|throttled|clock|part-alone)(\((out|in)\))?$": "yellow",
}
_DETAIL: Final = re.compile(r"# (library|devices|time|buffers|record|ranks|busbw|note|cases|scatter)\b")


def painted(line: str) -> Text:
    """A line for a terminal: answers in colour, detail dim."""
    from rich.text import Text

    text = Text(line)
    if _DETAIL.match(line):
        text.stylize("dim")
        return text
    for pattern, style in _WORDS.items():
        text.highlight_regex(pattern, style)
    return text
