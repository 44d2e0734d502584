"""Rows whose heading is not in the log: its beginning was cut off, as by ``kubectl logs --tail``.

Only tables that say themselves what they are: a size that is a number of elements of a known type, and a
bandwidth that is size / time. Their columns are those that the tool prints without further options.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from busbw.importers.columns import Column, Layout, fault
from busbw.importers.headings import NCCL_TESTS, heading
from busbw.importers.osu import type_bytes
from busbw.importers.printed import one_printed
from busbw.importers.table import GIB_PER_GB

_HEADINGS: Final = (
    # nccl-tests since 2.13; before, by what the operation has: a reduction, a root, neither, both.
    "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong",
    "# size count type redop time algbw busbw error time algbw busbw error",
    "# size count type root time algbw busbw error time algbw busbw error",
    "# size count type time algbw busbw error time algbw busbw error",
    "# size count type redop root time algbw busbw error time algbw busbw error",
    "size count type time(us) algbw busbw",
)


def layout_of_row(words: Sequence[str], tool: str = "") -> Layout | None:
    """The layout of a table that begins with this row; None where the row does not say it."""
    for line in _HEADINGS:
        layout = heading(line, tool)
        if layout is not None and not fault(layout.columns, words) and _bears_out(layout, words):
            return _unaligned(layout)
    return None


def _unaligned(layout: Layout) -> Layout:
    """Without what depends on where the words of the heading stand."""
    return Layout(layout.tool, layout.columns, layout.time_unit)


def _bears_out(layout: Layout, words: Sequence[str]) -> bool:
    """Whether a row is what its columns are called."""
    cells = {
        (column.name, column.placement): word for column, word in zip(layout.columns, words, strict=True)
    }
    size, count = int(cells["size", 0]), int(cells["count", 0])
    width = type_bytes(cells["type", 0])
    if not width or count <= 0 or size < count * width or size % (count * width):
        return False
    units = (1.0,) if layout.tool == NCCL_TESTS else (1.0, GIB_PER_GB)
    return all(_is_rate(cells, column, size, units) for column in layout.columns if column.name == "time")


def _is_rate(cells: dict[tuple[str, int], str], column: Column, size: int, units: Sequence[float]) -> bool:
    """Whether the bandwidth beside a time is size / time, within what the digits leave open."""
    time, algbw = one_printed(cells["time", column.placement]), one_printed(cells["algbw", column.placement])
    if time is None or algbw is None or time.value - time.half <= 0:
        return False
    least, most = size / (time.value + time.half) / 1e3, size / (time.value - time.half) / 1e3
    return any(
        least / unit <= algbw.value + algbw.half and algbw.value - algbw.half <= most / unit for unit in units
    )
