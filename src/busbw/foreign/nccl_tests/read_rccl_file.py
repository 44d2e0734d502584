"""The result file of rccl-tests (-x FILE): one JSON object, or one line of CSV, a measurement."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from busbw.foreign.logs.entries import Entry, found_table
from busbw.foreign.logs.row_words import is_number
from busbw.foreign.logs.table import Cell, Facts, Table
from busbw.foreign.logs.whole import CUT
from busbw.foreign.nccl_tests.read import ALL_COLUMNS, NCCL_TESTS
from busbw.model.record import ImportFinding

_CASE: Final = ("size", "type", "redop", "root")
_MEASURES: Final = {"time": "time", "algBw": "algbw", "busBw": "busbw", "wrong": "wrong", "#wrong": "wrong"}
_NEEDED: Final = ("name", "size", "type", "inPlace", "time", "algBw", "busBw")
_RANKS: Final = ("ranks", "gpus")  # older versions call the ranks GPUs

# One without its end is damaged; none has another one in it.
_OBJECT: Final = re.compile(r"\{[^{}]*\}?")

_Words = dict[str, str]


def is_rows(head: bytes) -> bool:
    """Whether a text with this beginning is such a file."""
    return head[:1] in b"[{n" and all(key in head for key in (b"inPlace", b"algBw", b"busBw"))


def tables(data: bytes) -> list[Table]:
    """The tables of a file: one for each operation and number of ranks."""
    found: dict[tuple[str, ...], list[tuple[int, _Words]]] = {}
    damaged: list[ImportFinding] = []
    for line, words in _entries(data.decode("utf-8", "replace")):
        if _is_whole(words):
            key = tuple(words.get(each, "") for each in ("name", *_RANKS))
            found.setdefault(key, []).append((line, words))
        else:
            damaged.append(ImportFinding("damaged", "an entry is not a whole measurement", line))
    text = data.rstrip()
    if text.startswith(b"[") and not text.endswith(b"]"):
        damaged.append(ImportFinding(CUT, "the list of measurements is cut here", text.count(b"\n") + 1))
    made = [_table(entries) for entries in found.values()]
    return [*made[:-1], made[-1].with_findings(*damaged)] if made else []


def _is_whole(words: _Words) -> bool:
    """Whether an entry has all that is needed, and a time: of two placements the other one is kept."""
    if not all(words.get(key) for key in _NEEDED) or words["inPlace"] not in ("0", "1"):
        return False
    return is_number(words["time"]) and 0 < float(words["time"]) < math.inf


def _entries(text: str) -> Iterator[tuple[int, _Words]]:
    """Each measurement as words by key, with its line; none for one that cannot be read. Newer files are one
    list of JSON, others have an object a line.
    """
    for match in _OBJECT.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, _object(match[0])
    lines = [] if text.lstrip()[:1] in ("{", "[") else text.splitlines()
    keys: list[str] = []
    for number, cells in enumerate(csv.reader(lines, skipinitialspace=True), 1):
        words = [cell.strip() for cell in cells]
        if keys and words:
            yield number, dict(zip(keys, words, strict=True)) if len(words) == len(keys) else {}
        keys = keys or words


def _object(text: str) -> _Words:
    try:
        found = json.loads(text, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return {}
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in found.items()}


def _table(entries: list[tuple[int, _Words]]) -> Table:
    first = entries[0][1]
    header = {key: text for key, text in first.items() if key not in (*_CASE, *_MEASURES, "inPlace")}
    ranks = next((first[key] for key in _RANKS if first.get(key, "").isdecimal()), "")
    facts = Facts({**header, "tests": "rccl", "program": first["name"]})
    if ranks:
        facts.header["ranks"] = int(ranks)
    found = found_table(NCCL_TESTS, ALL_COLUMNS, _rows(entries), facts, "an entry")
    found.first_line = entries[0][0]
    return replace(NCCL_TESTS.interpret(found), ended=True, sides_apart=True)


def _rows(entries: list[tuple[int, _Words]]) -> list[Entry]:
    """Measurements of the same case that follow each other are the two placements of a row."""
    rows: list[tuple[int, dict[Cell, str]]] = []
    for number, words in entries:
        side = int(words["inPlace"])
        case = {(name, 0): words.get(name, "") for name in _CASE}
        case["redop", 0], case["root", 0] = case["redop", 0] or "none", case["root", 0] or "-1"
        row = case | {(ours, side): words[key] for key, ours in _MEASURES.items() if words.get(key)}
        if rows and case.items() <= rows[-1][1].items() and ("time", side) not in rows[-1][1]:
            rows[-1][1].update(row)
        else:
            rows.append((number, row))
    return [*rows]
