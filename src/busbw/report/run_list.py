"""The list of runs: one line each, in the columns that fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from busbw.report.fields import aligned, attributes
from busbw.units import decimals, format_age, format_flag_size

_WIDEST: Final = (24, 16)  # cells of a terminal, and of one in which these do not fit
_STAMP: Final = 15  # the time in a run's id
_BETWEEN: Final = 2  # columns
_CUT: Final = "..."


@dataclass(frozen=True)
class Listed:
    """One run, hunt, preflight, command or series. ``short`` is the least of its id that means no other;
    ``sizes`` are the smallest and the largest in bytes; ``verdict`` is what became of it, in words.
    """

    run: str
    short: str
    made: datetime
    kind: str
    status: str
    verdict: str = ""
    name: str = ""
    backend: str = ""
    ranks: int | None = None
    cases: str = ""
    operations: tuple[str, ...] = ()
    sizes: tuple[int, int] | None = None
    device: str = ""
    peak_busbw_gb_per_s: float | None = None
    tags: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    version: str = ""

    @property
    def is_bad(self) -> bool:
        """Whether somebody should look at it."""
        word = self.verdict.partition(" ")[0]
        return self.status in {"failed", "killed", "unreadable"} or word in {"WRONG", "SLOW"}


# A run for programs: name -> value.
FIELDS: Final[Mapping[str, Callable[[Listed], Any]]] = {
    **attributes("run", "name", "tags", "kind"),
    "made": lambda row: row.made.isoformat(),
    **attributes("status", "verdict", "backend", "ranks", "device", "cases"),
    "operations": lambda row: ",".join(row.operations),
    "least_bytes": lambda row: row.sizes and row.sizes[0],
    "most_bytes": lambda row: row.sizes and row.sizes[1],
    **attributes("peak_busbw_gb_per_s"),
}


def table(rows: Sequence[Listed], now: datetime, columns: int | None) -> list[str]:
    """A heading and a line a run. ``columns`` is a terminal's width, in which every line fits: columns that
    say least are left out first. None for a pipe: everything, whole.
    """
    empty = "-" if columns is None else ""
    cells = {title: [cell(row, now, columns) or empty for row in rows] for title, cell in _COLUMNS.items()}
    if columns is not None:
        whole = {title: texts for title, texts in cells.items() if any(texts)}
        for widest in _WIDEST:
            cells = {title: [_cut(text, widest) for text in texts] for title, texts in whole.items()}
            cells["run"] = whole["run"]  # to be copied
            for title in _LEFT_OUT:
                if _width(cells) > columns:
                    cells.pop(title, None)
            if _width(cells) <= columns:
                break
    right = [at for at, title in enumerate(cells) if title in _RIGHT]
    lines = aligned([list(cells), *map(list, zip(*cells.values(), strict=True))], right)
    return lines if columns is None else [_cut(line, columns) for line in lines]


def _operations(row: Listed, columns: int | None) -> str:
    if row.kind != "run":
        return row.kind
    if columns is None:
        return ",".join(row.operations)
    more = f" +{len(row.operations) - 1}" if len(row.operations) > 1 else ""
    return "".join(row.operations[:1]) + more


# Title -> the text of a run at a moment, on a terminal of so many columns or none.
_COLUMNS: Final[Mapping[str, Callable[[Listed, datetime, int | None], str]]] = {
    "run": lambda row, now, columns: (
        row.run if columns is None else row.run[:_STAMP] if row.name else row.short
    ),
    "age": lambda row, now, columns: format_age((now - row.made).total_seconds()),
    "name": lambda row, now, columns: row.name,
    "operation": lambda row, now, columns: _operations(row, columns),
    "sizes": lambda row, now, columns: "-".join(dict.fromkeys(map(format_flag_size, row.sizes or ()))),
    "ranks": lambda row, now, columns: str(row.ranks or ""),
    "device": lambda row, now, columns: row.device,
    "peak GB/s": lambda row, now, columns: (
        "" if (peak := row.peak_busbw_gb_per_s) is None else f"{peak:.{decimals(peak, 1)}f}"
    ),
    "verdict": lambda row, now, columns: row.verdict,
    "tags": lambda row, now, columns: ",".join(row.tags),
}
_RIGHT: Final = ("age", "ranks", "peak GB/s")
_LEFT_OUT: Final = ("device", "tags", "sizes", "ranks")  # in this order


def _width(cells: Mapping[str, list[str]]) -> int:
    return sum(max(map(len, (title, *texts))) + _BETWEEN for title, texts in cells.items()) - _BETWEEN


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - len(_CUT)] + _CUT
