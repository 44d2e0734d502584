"""What a command gives its user: a result in the format that was asked for, and verdicts as files for a
continuous-integration service (``--junit``, ``--benchmark-json``).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence

from busbw.files import write_output
from busbw.plan.flags.compare import CiSettings
from busbw.report.ci import Suite, benchmark_text, junit_text
from busbw.report.console import print_lines


def show(format_name: str, lines: Iterable[str], **texts: Callable[[], str]) -> None:
    """Print a result: the text of that format, else ``lines``."""
    if format_name in texts:
        sys.stdout.write(texts[format_name]())
    else:
        print_lines(lines)


def as_json(fields: object) -> str:
    """Plain values, a line each."""
    return json.dumps(fields, indent=1) + "\n"


def write_for_ci(suites: Sequence[Suite], options: CiSettings) -> None:
    """Write the files that were asked for. Raises UsageError where one cannot be written."""
    for path, text in ((options.junit, junit_text), (options.benchmark_json, benchmark_text)):
        if path is not None:
            write_output(path, text(suites).encode())
