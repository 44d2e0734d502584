"""Colours, tables and progress on a terminal: those control characters are ours, all others are removed."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from busbw.report.style import painted
from busbw.terminal import fit, own_controls, printable


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
