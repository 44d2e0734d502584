"""The result file of rccl-tests (-x FILE): one JSON object, or one line of CSV, a measurement."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from busbw.foreign.logs.cases import NO_NUMBERS
from busbw.foreign.logs.json_text import text_of
from busbw.foreign.logs.operations import operation
from busbw.foreign.logs.own import Outcome
from busbw.foreign.logs.row_words import NO_REDUCTION, Printed, is_integer, is_number
from busbw.foreign.logs.table import Table, Timing
from busbw.foreign.logs.whole import CUT
from busbw.foreign.nccl_tests.read import RCCL_TESTS, TIME
from busbw.model.collective import Placement
from busbw.model.record import DAMAGED, ImportFinding
from busbw.model.result import Status

# std::to_string has six decimals.
_HALF: Final = 0.5e-6
_KEYS: Final = ("name", "size", "type", "inPlace", "time", "algBw", "busBw")
_MEASURES: Final = ("time", "algBw", "busBw")
# Older versions call the ranks GPUs.
_RANKS: Final = ("ranks", "gpus")
_SIDES: Final = tuple(Placement)
_LEFT_OUT: Final = Outcome(Status.NOT_APPLICABLE, {"error": NO_NUMBERS})


@dataclass(frozen=True)
class _Entry:
    """One measurement; ``line`` counts from 1."""

    line: int
    words: dict[str, str]

    @property
    def table(self) -> tuple[str, ...]:
        """What a table has one of."""
        return tuple(self.words.get(key, "") for key in ("name", "numCycle", *_RANKS))

    @property
    def row(self) -> tuple[str, ...]:
        """What the two placements of a row share."""
        return tuple(self.words.get(key, "") for key in ("size", "type", "redop", "root"))

    @property
    def side(self) -> Placement:
        return _SIDES[int(self.words["inPlace"])]


_Row = dict[Placement, _Entry]


def is_rows(head: bytes) -> bool:
    """Whether a text with this beginning is such a file."""
    return head[:1] in b"[{n" and all(key in head for key in (b"inPlace", b"algBw", b"busBw"))


def tables(data: bytes) -> list[Table]:
    """The tables of a file: one for each operation, number of ranks and cycle."""
    found: dict[tuple[str, ...], list[_Entry]] = {}
    findings = []
    for line, words in _entries(data.decode("utf-8", "replace")):
        if words is not None and _is_whole(words):
            entry = _Entry(line, words)
            found.setdefault(entry.table, []).append(entry)
        else:
            findings.append(ImportFinding(DAMAGED, "an entry is not a whole measurement", line))
    text = data.rstrip()
    if text.startswith(b"[") and not text.endswith(b"]"):
        findings.append(ImportFinding(CUT, "the list of measurements is cut here", text.count(b"\n") + 1))
    made = [_table(entries) for entries in found.values()]
    return [*made[:-1], made[-1].with_findings(*findings)] if made else []


def _entries(text: str) -> Iterator[tuple[int, dict[str, str] | None]]:
    """Each line as words by key; None for one that cannot be read. Newer files are one list of JSON."""
    keys: list[str] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip().strip("[],").strip()
        if not line:
            continue
        if not line.startswith("{"):
            cells = [cell.strip() for cell in next(csv.reader([line]), [])]
            if not keys:
                keys = cells
                continue
            yield number, dict(zip(keys, cells, strict=True)) if len(cells) == len(keys) else None
            continue
        for part in line.replace("}, {", "},{").split("},{"):
            yield number, _object("{" + part.strip("{}") + "}")


def _object(text: str) -> dict[str, str] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in found.items()}


def _is_whole(words: dict[str, str]) -> bool:
    return (
        all(key in words for key in _KEYS)
        and all(is_number(words[key]) for key in _MEASURES)
        and words["inPlace"] in ("0", "1")
        and is_integer(words["size"])
        and int(words["size"]) >= 0
        and words["type"].isidentifier()
    )


def _table(entries: Sequence[_Entry]) -> Table:
    rows = list(_rows(entries))
    sides = [side for side in _SIDES if any(side in row for row in rows)]
    firsts = [next(iter(row.values())) for row in rows]
    first = firsts[0].words
    lost = [
        (entry, side) for entry, row in zip(firsts, rows, strict=True) for side in sides if side not in row
    ]
    ranks = next((int(first[key]) for key in _RANKS if first.get(key, "").isdecimal()), 0)
    cycle = first.get("numCycle", "0")
    return Table(
        tool=RCCL_TESTS,
        backend="rccl",
        library="RCCL",
        stream="",
        time=TIME,
        lines=np.array([entry.line for entry in firsts], np.int64),
        widths=np.zeros(len(rows), np.int64),
        sizes=np.array([int(entry.words["size"]) for entry in firsts], np.int64),
        counts=np.full(len(rows), -1, np.int64),
        types=[entry.words["type"] for entry in firsts],
        redops=[entry.words.get("redop") or NO_REDUCTION for entry in firsts],
        roots=np.array([_root(entry.words) for entry in firsts], np.int64),
        timings=tuple(_timing(rows, side) for side in sides),
        operation=operation(first["name"]) or first["name"],
        operation_from="header",
        first_line=entries[0].line,
        last_line=entries[-1].line,
        rank_labels=(("header", ranks),) if ranks else (),
        header={
            key: text_of(value) for key, value in first.items() if key not in (*_KEYS, "wrong", "#wrong")
        },
        formulas="today's",
        findings=tuple(
            ImportFinding(DAMAGED, f"its {side} measurement is not in the file", entry.line)
            for entry, side in lost
        ),
        outcomes={(entry.line, side): _LEFT_OUT for entry, side in lost},
        cycle=int(cycle) if cycle.isdecimal() else 0,
    )


def _rows(entries: Sequence[_Entry]) -> Iterator[_Row]:
    """Measurements of the same kind that follow each other are the two placements of a row."""
    row: _Row = {}
    for entry in entries:
        if row and (entry.side in row or next(iter(row.values())).row != entry.row):
            yield row
            row = {}
        row[entry.side] = entry
    if row:
        yield row


def _root(words: dict[str, str]) -> int:
    root = words.get("root", "")
    return int(root) if is_integer(root) else -1


def _timing(rows: Sequence[_Row], side: Placement) -> Timing:
    cells: list[dict[str, str]] = [row[side].words if side in row else {} for row in rows]

    def column(*keys: str) -> Any:  # noqa: ANN401 (an array of numbers)
        words = [next((cell[key] for key in keys if key in cell), "nan") for cell in cells]
        return np.array([float(word) if is_number(word) else np.nan for word in words])

    half = np.full(len(rows), _HALF)
    return Timing(
        side,
        Printed(column("time"), half),
        Printed(column("algBw"), half),
        Printed(column("busBw"), half),
        column("wrong", "#wrong"),
    )
