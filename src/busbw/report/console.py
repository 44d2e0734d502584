"""Colours, tables and progress on a terminal: those control characters are ours, all others are removed. The
one place that decides colours, and what has one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from busbw.terminal import fit, own_controls, printable

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
    text = Text(line)
    if _DETAIL.match(line):
        text.stylize("dim")
        return text
    for pattern, style in _WORDS.items():
        text.highlight_regex(pattern, style)
    return text


class CleanConsole(Console):
    """Rich's console, for texts from anywhere."""

    def __init__(self, out: TextIO | None = None, **options: Any) -> None:  # noqa: ANN401 (as Console has them)
        super().__init__(file=own_controls(out or sys.stdout), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As Console."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)

    def print_lines(self, lines: Iterable[str], *, whole: bool = False) -> None:
        """Lines in colour, no longer than the terminal is wide unless they are to stay ``whole``."""
        for line in lines:
            for part in (line,) if whole else fit(line, self.width):
                text = part if self.no_color else painted(part)
                self.print(text, markup=False, highlight=False, soft_wrap=True)


# The console whose progress line is on the terminal now, if any: what is printed meanwhile stands above it.
with_progress: list[CleanConsole] = []


def print_lines(lines: Iterable[str], out: TextIO | None = None, *, whole: bool = False) -> None:
    """On a terminal in colour, above a progress line, and no longer than it is wide unless they are to stay
    ``whole``; elsewhere as they are.
    """
    out = out or sys.stdout
    if out.isatty():
        console = with_progress[-1] if with_progress else CleanConsole(out)
        console.print_lines(lines, whole=whole)
    else:
        out.writelines(f"{line}\n" for line in lines)
    out.flush()


def columns(most: int, out: TextIO | None = None) -> int:
    """How wide prose is to be: ``most``, or as a narrower terminal is."""
    out = out or sys.stdout
    return min(most, CleanConsole(out).width) if out.isatty() else most
