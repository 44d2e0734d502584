"""The summary file of the AWS kit's converter: Metric,Value, its metrics first, then what they leave out."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from busbw.exporters.remarks import one_line, provenance, time_words
from busbw.exporters.rows import Table, average_busbw_gb_per_s
from busbw.model.collective import Placement
from busbw.model.record import RunRecord
from busbw.model.result import Status


def write(record: RunRecord, tables: Sequence[Table]) -> bytes:
    """The metrics of the only table."""
    (table,) = tables
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("Metric", "Value"))
    writer.writerows([*_metrics(table), *_own(record, table)])
    return buffer.getvalue().encode()


def _metrics(table: Table) -> list[tuple[str, object]]:
    """What the converter writes, under its names and with its digits."""
    sizes = [row.case.size_bytes for row in table.rows]
    sides = [[row.side(placement) for row in table.rows] for placement in Placement]
    peaks = [
        max((result.busbw_gb_per_s for result in side if result and result.busbw_gb_per_s), default=None)
        for side in sides
    ]
    means = [average_busbw_gb_per_s(side)[0] for side in sides]
    checked = [result.wrong for result in table.results if result.wrong is not None]
    average, _ = average_busbw_gb_per_s(table.results)
    return [
        ("Total Test Points", len(table.rows)),
        ("Min Message Size (Bytes)", min(sizes)),
        ("Max Message Size (Bytes)", max(sizes)),
        ("Peak OOP Bus BW (GB/s)", _rounded(peaks[0])),
        ("Peak IP Bus BW (GB/s)", _rounded(peaks[1])),
        ("Avg OOP Bus BW (GB/s)", _rounded(means[0])),
        ("Avg IP Bus BW (GB/s)", _rounded(means[1])),
        ("Total Errors", sum(checked) if checked else "N/A"),
        ("NCCL Reported Avg Bus BW (GB/s)", "nan" if average is None else f"{average:g}"),
    ]


def _own(record: RunRecord, table: Table) -> list[tuple[str, object]]:
    """The unit and reduction of the above, and how many cases they are not made from."""
    _, counted = average_busbw_gb_per_s(table.results)
    statuses = [result.status for result in table.results]
    return [
        ("Collective", table.collective),
        ("Time Is", one_line(time_words(record))),
        ("GB/s Is", "10^9 bytes/s"),
        ("Averages Are", "plain means over the sizes of this run; not comparable with other sizes"),
        ("Cases In Averages", counted),
        ("Cases", len(statuses)),
        *((f"Cases {status.value}", statuses.count(status)) for status in Status),
        ("Cases Not Checked", sum(result.wrong is None for result in table.results)),
        ("Run", one_line(provenance(record))),
    ]


def _rounded(value: float | None) -> object:
    return "nan" if value is None else round(value, 2)
