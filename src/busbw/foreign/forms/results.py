"""The results of a run for other programs, every field of them: JSON and Parquet.

JSON has the run once, then one flat object a case; names carry their units (_ns, _bytes, _gb_per_s).
``busbw show --format json`` has the whole record instead. Parquet is the frame of
``busbw.open_run(RUN).df``, and what its times are.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from busbw.foreign.forms.remarks import BANDWIDTH, time_words
from busbw.foreign.forms.rows import Table, first_rank, ranks
from busbw.judge import run
from busbw.model.record import RunRecord

# Raised when a field changes meaning or goes.
FORMAT_VERSION: Final = 1


def write_json(record: RunRecord, tables: Sequence[Table]) -> bytes:
    """One document."""
    world, first = record.world, first_rank(record)
    cases = {
        case.index: {name: value for name, value in asdict(case).items() if name != "index"}
        for case in record.plan.cases
    }
    document = {
        "format": "busbw-results",
        "format_version": FORMAT_VERSION,
        "run_id": record.run_id,
        "busbw_version": record.busbw_version,
        "created": None if record.created_by_file else record.created,
        "ended": record.ended,
        "status": record.status.value,
        "error": record.error,
        "argv": record.argv,
        "backend": record.plan.backend,
        "ranks": ranks(record),
        "hosts": list(world.known_hosts) if world is not None else [],
        "library": first.library if first is not None else "",
        "library_version": first.library_version if first is not None else "",
        "time_is": time_words(record),
        "bandwidth_is": BANDWIDTH,
        "method": asdict(record.method) if record.method is not None else None,
        "imported_from": asdict(record.source) if record.source is not None else None,
        "results": [{**cases[each.case], **asdict(each)} for table in tables for each in table.results],
    }
    return (json.dumps(document, indent=1) + "\n").encode()


def write_parquet(record: RunRecord, tables: Sequence[Table]) -> bytes:
    """One row a case, columns as in docs/reference/frames.md, then ``time_is`` and ``bandwidth_is``.

    Raises UsageError where polars is missing, naming the extra that brings it.
    """
    results = run.results(record)
    import polars as pl

    wanted = results.filter(pl.col("collective").is_in([table.collective for table in tables]))
    words = pl.lit(time_words(record)).alias("time_is"), pl.lit(BANDWIDTH).alias("bandwidth_is")
    buffer = io.BytesIO()
    wanted.with_columns(words).write_parquet(buffer, compression="zstd")
    return buffer.getvalue()
