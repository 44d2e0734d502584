"""``busbw export``: a run in the formats that other people's scripts read."""

from __future__ import annotations

import sys
from pathlib import Path

from busbw.errors import ExitCode, UsageError
from busbw.files import write_output
from busbw.foreign.forms.formats import BINARY, ExportFormat, render
from busbw.judge.run import started_folder
from busbw.record.read import read_record
from busbw.terminal import printable


def export(
    run: str, format_name: ExportFormat, *, output: Path | None = None, operation: str = ""
) -> ExitCode:
    """Write a record in a format to a file, or to standard output; exit code 0 whatever the run's own was.

    Raises UsageError where the format cannot hold the run, or the file cannot be written.
    """
    is_text = format_name not in BINARY
    if output is None and not is_text and sys.stdout.isatty():
        raise UsageError(f"{format_name} is not text", hint="give --output FILE, or send it into a pipe")
    record = read_record(started_folder(run))
    content = render(record, format_name, operation)
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
