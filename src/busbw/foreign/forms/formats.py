"""The formats, one row each: what a name means and which function writes it.

Every command loads this module for its flags, so it loads nothing itself before it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal, cast

from busbw.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from busbw.foreign.forms.rows import Table
    from busbw.model.record import RunRecord

    Writer = Callable[[RunRecord, Sequence[Table]], bytes]

ExportFormat = Literal[
    "csv",
    "summary-csv",
    "json",
    "nccl-tests",
    "nccl-tests-json",
    "nccom",
    "nccom-json",
    "markdown",
    "parquet",
]


@dataclass(frozen=True)
class Format:
    """``writer`` is a function by its module, which is loaded on use. ``single``: its shape has no place for
    a second operation.
    """

    name: ExportFormat
    summary: str
    writer: str
    single: bool = False
    binary: bool = False


FORMATS: Final = (
    Format(
        "csv",
        "one line a size, in the columns of the AWS kit's nccl_to_csv.py and more",
        "aws_kit.write:write_results",
    ),
    Format("summary-csv", "Metric,Value, as its summary file", "aws_kit.write:write_summary", single=True),
    Format("json", "one object a case, with every field of its result", "forms.results:write_json"),
    Format("nccl-tests", "the text table of nccl-tests 2.19", "nccl_tests.write:write"),
    Format("nccl-tests-json", "the file of nccl-tests -J", "nccl_tests.write_json:write", single=True),
    Format("nccom", "the text table of nccom-test", "nccom.write:write"),
    Format(
        "nccom-json",
        "the file of nccom-test --report-to-json-file",
        "nccom.write:write_json",
        single=True,
    ),
    Format("markdown", "a table for an issue or a page", "forms.markdown:write"),
    Format("parquet", "one row a case, for data frames", "forms.results:write_parquet", binary=True),
)


def find_format(name: str) -> Format:
    """Look a format up. Raises UsageError naming all of them."""
    for row in FORMATS:
        if row.name == name:
            return row
    known = ", ".join(row.name for row in FORMATS)
    raise UsageError(f"unknown format {name!r}", hint=f"use one of: {known}")


def render(record: RunRecord, name: str, operation: str = "") -> bytes:
    """The record in a format; text is UTF-8. ``operation`` leaves the others out.

    Raises UsageError where the format is unknown, cannot hold the record, or needs an extra that is missing.
    """
    from busbw.foreign.forms.rows import tables

    chosen = find_format(name)
    content = tables(record, operation)
    if chosen.single and len(content) > 1:
        names = ", ".join(table.collective for table in content)
        raise UsageError(
            f"{name} holds one operation, and the run has {names}", hint="choose one of them with --op"
        )
    module, _, function = chosen.writer.partition(":")
    write = cast("Writer", getattr(import_module(f"busbw.foreign.{module}"), function))
    return write(record, content)
