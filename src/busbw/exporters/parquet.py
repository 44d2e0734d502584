"""The results as Parquet: the frame of ``busbw.open_run(RUN).results``, and what its times are."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from busbw.analysis import frames
from busbw.exporters.remarks import BANDWIDTH, time_words
from busbw.exporters.rows import Table
from busbw.model.record import RunRecord

if TYPE_CHECKING:
    import polars as pl


def write(record: RunRecord, tables: Sequence[Table]) -> bytes:
    """One row a case, columns as in docs/guides/notebook.md, then ``time_is`` and ``bandwidth_is``.

    Raises UsageError where polars is missing, naming the extra that brings it.
    """
    frame = _frame(record, tables)
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def _frame(record: RunRecord, tables: Sequence[Table]) -> pl.DataFrame:
    results = frames.results(record)
    import polars as pl

    wanted = results.filter(pl.col("collective").is_in([table.collective for table in tables]))
    return wanted.with_columns(
        pl.lit(time_words(record)).alias("time_is"), pl.lit(BANDWIDTH).alias("bandwidth_is")
    )
