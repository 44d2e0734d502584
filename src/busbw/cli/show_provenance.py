"""``busbw show --provenance``: where a run took place and with what."""

from __future__ import annotations

import json
from dataclasses import asdict

from busbw.analysis.provenance import provenance
from busbw.analysis.run import started_folder
from busbw.errors import ExitCode, UsageError
from busbw.record.folder import EVIDENCE_FOLDER
from busbw.record.read import read_record
from busbw.reports.provenance import provenance_lines


def show_provenance(run: str, format_name: str, *, alone: bool) -> ExitCode:
    """Print it; exit code 0 whatever the run's own was. ``alone``: no other part of the run was asked for."""
    if not alone:
        raise UsageError(
            "--provenance is of the run, not of cases", hint="leave --ranks, --histogram and --case out"
        )
    if format_name not in ("table", "json"):
        raise UsageError(f"--format {format_name} has no form for provenance", hint="use table or json")
    folder = started_folder(run)
    files = [str(path.relative_to(folder)) for path in sorted((folder / EVIDENCE_FOLDER).glob("*"))]
    told = provenance(read_record(folder), files)
    if format_name == "json":
        print(json.dumps(asdict(told), indent=1))
    else:
        print(*provenance_lines(told), sep="\n")
    return ExitCode.OK
