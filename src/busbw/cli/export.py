"""``busbw export``: a run in the formats that other people's scripts read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from busbw.cli.app import RunName, flag
from busbw.errors import ExitCode, UsageError
from busbw.files import write_output
from busbw.foreign.forms.formats import BINARY, ExportFormat, render
from busbw.judge.run import started_folder
from busbw.record.read import read_record
from busbw.terminal import printable


def export(
    run: RunName = "last",
    /,
    *,
    format: Annotated[ExportFormat, flag("Format to write.")] = "nccl-tests",  # noqa: A002
    output: Annotated[
        Path | None, flag("Write to this file instead of standard output.", name=["--output", "-o"])
    ] = None,
    op: Annotated[str, flag("Only this operation of the run.")] = "",
) -> ExitCode:
    """Write a record in a format to a file, or to standard output; exit code 0 whatever the run's own was.

    Raises UsageError where the format cannot hold the run, or the file cannot be written.
    """
    is_text = format not in BINARY
    if output is None and not is_text and sys.stdout.isatty():
        raise UsageError(f"{format} is not text", hint="give --output FILE, or send it into a pipe")
    record = read_record(started_folder(run))
    content = render(record, format, op)
    if is_text:
        content = printable(content.decode()).encode()
    if output is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        write_output(output, content)
    if record.error:
        print(f"the run {record.status.value}: {record.error}", file=sys.stderr)
    return ExitCode.OK
