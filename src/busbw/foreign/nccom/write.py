"""A record as nccom-test writes results: its text table, and the file of --report-to-json-file.

It knows one reduction, one root and one placement a run, so every combination has a table of its own. Its
percentiles are p50 and so on: the median that busbw prints stands under ``time:p50(us)``, the mean over the
same samples under ``time:avg(us)``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

from busbw.foreign.forms.remarks import (
    kind_words,
    notes,
    reason,
    remarks,
    status_word,
    time_statistic,
    time_words,
)
from busbw.foreign.forms.rows import Row as RecordRow
from busbw.foreign.forms.rows import Table, average_busbw_gb_per_s, is_applicable, ranks, runs
from busbw.foreign.nccom import columns
from busbw.foreign.nccom.columns import OPERANDS, Row
from busbw.model.collective import Placement
from busbw.model.record import RunRecord
from busbw.model.result import Status

# Of its names the last, which is the short one.
_OPERANDS: Final = {collective: word for word, collective in OPERANDS.items()}
_PERCENTILE: Final = re.compile(r"p\d+(?:\.\d+)?")


def write(record: RunRecord, tables: Sequence[Table]) -> bytes:
    """All tables below each other, as several runs of nccom-test in one log."""
    lines = [f"# busbw: {note}" for note in notes(record, "nccom-test")]
    for table in tables:
        stats = _statistics(record, table)
        lines += [f"# busbw: {table.collective}: {note}" for note in _column_notes(record, stats)]
        for rows, placement in runs(table):
            if is_applicable(rows, placement):
                lines += _table(record, rows, placement, stats)
            else:
                lines += [f"# busbw: {table.collective}: {text}" for text in remarks(rows, (placement,))]
    return ("\n".join(lines) + "\n").encode()


def _table(
    record: RunRecord, group: Sequence[RecordRow], placement: Placement, stats: tuple[str, ...]
) -> list[str]:
    case, number = group[0].case, ranks(record)
    results = [row.found.get(placement) for row in group]
    rows = [_row(row, placement, stats) for row in group]
    good = [row for row in rows if columns.ERROR not in row]
    titles = columns.titles(
        stats,
        # Whole numbers in every row, or there are no such columns.
        sizes=bool(good) and all(None not in (row[columns.INPUT], row[columns.OUTPUT]) for row in good),
        algorithm=any(result is not None and result.algorithm for result in results),
    )
    average, counted = average_busbw_gb_per_s(results)
    note = f"# busbw: the average is over {counted} of {len(rows)} rows; other sizes, other average"
    named = " ".join(filter(None, (case.collective, *kind_words(case)[:3], placement.value)))
    lines = [f"# busbw: {named}, {'ranks not known' if number is None else f'{number} ranks'}"]
    if number is not None and case.collective in _OPERANDS:
        lines.append(f"# nccom-test -r {number} {_OPERANDS[case.collective]}")
    lines += [columns.heading(titles), *(columns.line(row, titles) for row in rows)]
    errors = sum(result is not None and result.status in (Status.WRONG, Status.FAILED) for result in results)
    lines += columns.footer(average, errors, [note])
    return lines + [f"# busbw: {text}" for text in remarks(group, (placement,))]


def _statistics(record: RunRecord, table: Table) -> tuple[str, ...]:
    """The words of the time columns: the headline's first, then avg and the percentiles that any case has."""
    found = [time_statistic(record)]
    if any(result.mean_ns is not None for result in table.results):
        found.append("avg")
    words = {word for result in table.results for word, value in result.stats.items() if value is not None}
    found += sorted(filter(_PERCENTILE.fullmatch, words), key=lambda word: float(word[1:]))
    return tuple(dict.fromkeys(found))


def _column_notes(record: RunRecord, stats: Sequence[str]) -> list[str]:
    """What the columns beside the headline are."""
    if record.source is not None:
        return []  # they are the log's own
    return [
        f"{columns.time_title(word)} = {'mean over the same samples' if word == 'avg' else 'of single calls'}"
        for word in stats[1:]
    ]


def _row(row: RecordRow, placement: Placement, stats: Sequence[str]) -> Row:
    """A result as a row: with numbers where it was measured and found right, as nccom-test."""
    result = row.found.get(placement)
    if result is None:
        return columns.failed(row.case, "not in this run")
    if result.status is not Status.GOOD or result.time_ns is None:
        return columns.failed(row.case, ": ".join(filter(None, (status_word(result), reason(result)))))
    times_ns = {**result.stats, "avg": result.mean_ns, stats[0]: result.time_ns}
    return columns.measured(row.case, result, {word: times_ns.get(word) for word in stats})


def write_json(record: RunRecord, tables: Sequence[Table]) -> bytes:
    """The only table as one document: the text columns as keys, with all digits.

    ``results`` has the out-of-place rows, the only ones that nccom-test knows, or those in place of an
    operation that has no others; ``results_in_place`` the rest.
    """
    (table,) = tables
    stats = _statistics(record, table)
    placements = [placement for placement in Placement if is_applicable(table.rows, placement)]
    lists = zip(("results", "results_in_place"), placements or [Placement.IN_PLACE], strict=False)
    document: dict[str, Any] = {
        name: [_entry(row, placement, stats) for row in table.rows] for name, placement in lists
    }
    document["busbw"] = {
        "operation": _OPERANDS.get(table.collective, table.collective),
        "nworkers": ranks(record),
        "run_id": record.run_id,
        "status": record.status.value,
        "time_is": f"{columns.time_title(stats[0])}: {time_words(record)}; of one call",
        "notes": [
            *notes(record, "nccom-test --report-to-json-file"),
            *_column_notes(record, stats),
            *remarks(table.rows),
        ],
    }
    return (json.dumps(document, indent=4) + "\n").encode()


def _entry(row: RecordRow, placement: Placement, stats: tuple[str, ...]) -> dict[str, Any]:
    result, shown = row.found.get(placement), _row(row, placement, stats)
    has_sizes = None not in (shown.get(columns.INPUT), shown.get(columns.OUTPUT))
    titles = columns.titles(stats, sizes=has_sizes, algorithm=result is not None and bool(result.algorithm))
    return {
        **columns.entry(shown, titles),
        "placement": placement.value,
        "redop": row.case.op or "none",
        "root": row.case.root,
        "wrong": None if result is None else result.wrong,
    }
