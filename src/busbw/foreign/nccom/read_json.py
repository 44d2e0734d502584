"""The JSON file of nccom-test (--report-to-json-file): the text table's columns at full precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from busbw.foreign.logs.entries import Entry, found_table
from busbw.foreign.logs.json_text import Document, mapping, sequence, word
from busbw.foreign.logs.row_words import Column, Kind
from busbw.foreign.logs.table import Cell, Facts, Failure, Table, number_or_word
from busbw.foreign.nccl_tests.read_json import cut
from busbw.foreign.nccom.read import NCCOM_TEST, column
from busbw.model.collective import Placement
from busbw.model.record import DAMAGED, ImportFinding

# Columns of busbw's own files, and what a table has one of: a placement, or one of operations that ran at
# once.
_OWN: Final = (Column("redop", Kind.WORD), Column("root", Kind.INTEGER))
_OF_A_TABLE: Final = ("placement", "stream", "operation", "ranks")
_PLACEMENTS: Final = {placement.value for placement in Placement}


def is_nccom_test(content: dict[str, Any]) -> bool:
    """Whether a JSON document is one of nccom-test."""
    return any("size(B)" in mapping(row) for row in sequence(content.get("results")))


def tables(document: Document) -> list[Table]:
    """The table of a document; of busbw's own files one for each placement, or stream."""
    content = document.content
    rows = [mapping(row) for name in ("results", "results_in_place") for row in sequence(content.get(name))]
    is_own = any("placement" in row for row in rows)
    groups: dict[tuple[str, ...], list[tuple[int, dict[str, Any]]]] = {}
    findings = cut(document, len(rows))
    for index, row in enumerate(rows, 1):
        if is_own and row.get("placement") not in _PLACEMENTS:
            findings.append(ImportFinding(DAMAGED, "an entry of results does not say its placement", index))
        else:
            groups.setdefault(tuple(word(row.get(key)) for key in _OF_A_TABLE), []).append((index, row))
    made = [_table(content, entries) for entries in groups.values()]
    return [*made[:-1], made[-1].with_findings(*findings)] if made else []


def _table(content: dict[str, Any], rows: list[tuple[int, dict[str, Any]]]) -> Table:
    entries: list[Entry] = []
    failures: list[Failure] = []
    for index, row in rows:
        words = _words(row)
        if any(name.startswith("time") for name, _ in words) or not words.get(("size", 0), "").isdecimal():
            entries.append((index, words))
        else:
            failures.append(_failure(index, row, words))
    columns = dict.fromkeys([known for _, row in rows for title in row if (known := column(title))])
    first = rows[0][1]
    facts = Facts(_header(content, first))
    found = found_table(NCCOM_TEST, [*columns, *_OWN], entries, facts, "an entry of results")
    found.failures += failures
    found.above = word(first.get("placement"))
    return replace(NCCOM_TEST.interpret(found), ended=True)


def _failure(index: int, row: dict[str, Any], words: Mapping[Cell, str]) -> Failure:
    """A size without a time, with the words that stand there instead."""
    said = [word(value) for title, value in row.items() if column(title) is None]
    text = word(row.get("error")) or ", ".join(filter(None, said)) or "no time"
    return Failure(index, int(words["size", 0][:18]), text[:200], words.get(("type", 0), ""))


def _words(row: dict[str, Any]) -> dict[Cell, str]:
    """The words of an entry by column: all digits, and ``null`` where busbw has no number."""
    words: dict[Cell, str] = {}
    for title, value in row.items():
        known = column(title)
        if known is not None:
            words[known.name, 0] = "nan" if value is None and known.kind is Kind.MEASURE else word(value)
    return words | {(each.name, 0): word(row[each.name]) for each in _OWN if each.name in row}


def _header(content: dict[str, Any], first: dict[str, Any]) -> dict[str, Any]:
    """The plain words of the document; of busbw's own files operation, ranks and what the times are."""
    own = mapping(content.get("busbw"))
    words = {key: word(value) for key, value in content.items()}
    # Bandwidths are by the ranks of a group; where groups differ, there is a list instead of a number.
    words |= {
        "operation": word(first.get("operation")) or word(own.get("operation")),
        "ranks": word(first.get("ranks")) or word(own.get("group_ranks", own.get("nworkers"))),
        "time_is": word(own.get("time_is")).partition(": ")[2].removesuffix("; of one call"),
    }
    found = {name: number_or_word(text) for name, text in words.items() if text}
    return {name: value for name, value in found.items() if name != "ranks" or isinstance(value, int)}
