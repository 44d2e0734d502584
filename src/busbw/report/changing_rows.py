"""Rows that may still change, above a progress line, at the bottom of a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.progress import Progress
from rich.text import Text

from busbw.report.console import painted

if TYPE_CHECKING:
    from rich.console import RenderableType

_LINES_BELOW = 3  # the progress line, and the cursor's


class RowsAndProgress(Progress):
    """A progress display with ``rows``, of which the last ones are shown where not all have room."""

    rows: Sequence[str] = ()

    def get_renderables(self) -> Iterable[RenderableType]:
        """See Progress."""
        room = max(1, self.live.console.height - _LINES_BELOW) if self.rows else 1
        for line in self.rows[-room:]:
            row = Text(line) if self.console.no_color else painted(line)
            row.no_wrap, row.overflow = True, "crop"
            yield row
        yield from super().get_renderables()
