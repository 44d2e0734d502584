"""Verdicts as files for a continuous-integration service: ``--junit`` and ``--benchmark-json``."""

from __future__ import annotations

from collections.abc import Sequence

from busbw.files import write_output
from busbw.plan.flags.compare import CiSettings
from busbw.report.ci import Suite, benchmark_text, junit_text


def write_for_ci(suites: Sequence[Suite], options: CiSettings) -> None:
    """Write the files that were asked for. Raises UsageError where one cannot be written."""
    for path, text in ((options.junit, junit_text), (options.benchmark_json, benchmark_text)):
        if path is not None:
            write_output(path, text(suites).encode())
