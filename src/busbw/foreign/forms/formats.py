"""The formats: what a name means and which function writes it.

Every command loads this module for its flags, so it loads nothing itself before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal

from busbw.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from busbw.model.record import RunRecord

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
# Functions of a record and its tables by their modules, which are loaded on use.
WRITERS: Final[Mapping[ExportFormat, str]] = {
    "csv": "aws_kit.write:write_results",
    "summary-csv": "aws_kit.write:write_summary",
    "json": "forms.results:write_json",
    "nccl-tests": "nccl_tests.write:write",
    "nccl-tests-json": "nccl_tests.write_json:write",
    "nccom": "nccom.write:write",
    "nccom-json": "nccom.write:write_json",
    "markdown": "forms.markdown:write",
    "parquet": "forms.results:write_parquet",
}
BINARY: Final = frozenset({"parquet"})
# Their shapes have no place for a second operation.
SINGLE: Final = frozenset({"summary-csv", "nccl-tests-json", "nccom-json"})


def render(record: RunRecord, name: ExportFormat, operation: str = "") -> bytes:
    """The record in a format; text is UTF-8. ``operation`` leaves the others out.

    Raises UsageError where the format cannot hold the record, or needs an extra that is missing.
    """
    from busbw.foreign.forms.rows import tables

    content = tables(record, operation)
    if name in SINGLE and len(content) > 1:
        names = ", ".join(table.collective for table in content)
        raise UsageError(
            f"{name} holds one operation, and the run has {names}", hint="choose one of them with --op"
        )
    module, _, function = WRITERS[name].partition(":")
    written: bytes = getattr(import_module(f"busbw.foreign.{module}"), function)(record, content)
    return written
