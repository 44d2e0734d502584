"""The results CSV that the AWS kit's converter makes from a log of nccl-tests, and busbw's export of it."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from busbw.foreign.logs.entries import Entry, found_table
from busbw.foreign.logs.table import Cell, Facts, Table
from busbw.foreign.nccl_tests.read import ALL_COLUMNS, NCCL_TESTS
from busbw.model.record import ImportFinding

_CASE: Final = {
    "size_bytes": "size",
    "count": "count",
    "data_type": "type",
    "operation": "redop",
    "root": "root",
}
_MEASURES: Final = {"time_us": "time", "algbw_gbps": "algbw", "busbw_gbps": "busbw", "errors": "wrong"}
_CELLS: Final[dict[str, Cell]] = {
    **{title: (name, 0) for title, name in _CASE.items()},
    **{
        f"{side}_{title}": (name, index)
        for index, side in enumerate(("oop", "ip"))
        for title, name in _MEASURES.items()
    },
}
# Columns of busbw's own exports, by which rows are tables apart.
_OWN: Final = ("collective", "ranks", "time_is")


def is_csv(first_line: str) -> bool:
    """Whether a line is the heading of such a file, or its beginning."""
    plain = first_line.lstrip("\ufeff \"'").lower()
    return plain.startswith("size_bytes") and "," in plain


def tables(lines: Sequence[str]) -> list[Table]:
    """The one table of a file, or one for each operation of an export of busbw; none where its columns are
    others.
    """
    rows = [(number, _cells(line)) for number, line in enumerate(lines, 1)]
    rows = [(number, cells) for number, cells in rows if any(cells)]
    titles = [cell.lstrip("\ufeff").lower() for _, cells in rows[:1] for cell in cells]
    if not {"size_bytes", "count", "oop_time_us"} <= set(titles):
        return []
    groups: dict[tuple[str, ...], list[Entry]] = {}
    damaged: list[ImportFinding] = []
    for number, cells in rows[1:]:
        if len(cells) == len(titles):
            words = dict(zip(titles, cells, strict=True))
            groups.setdefault(tuple(words.get(name, "") for name in _OWN), []).append((number, _words(words)))
        else:
            damaged.append(ImportFinding("damaged", "not a whole row of the CSV file", number))
    made = [_table(own, entries) for own, entries in (groups or {("", "", ""): []}).items()]
    return [*made[:-1], made[-1].with_findings(*damaged)]


def _cells(line: str) -> list[str]:
    try:
        return [cell.strip() for cells in csv.reader([line]) for cell in cells]
    except csv.Error:
        return ["?"]


def _words(words: dict[str, str]) -> dict[Cell, str]:
    """The words of a row by column. The converter writes 0 for N/A, so its 0 does not say that anything was
    checked; that of busbw does.
    """
    found = {cell: words.get(title, "") for title, cell in _CELLS.items() if title in words}
    if "collective" not in words:
        found |= {cell: "" for cell, text in found.items() if cell[0] == "wrong" and not text.strip("0.")}
    return found


def _table(own: tuple[str, ...], entries: list[Entry]) -> Table:
    collective, ranks, time = own
    header = {"program": collective, "time_is": time} if collective else {}
    facts = Facts(header | ({"ranks": int(ranks)} if ranks.isdecimal() and len(ranks) < 10 else {}))
    found = found_table(NCCL_TESTS, ALL_COLUMNS, entries, facts, "a line of the CSV file")
    found.first_line = entries[0][0] if entries else 1
    return replace(NCCL_TESTS.interpret(found), ended=True)
