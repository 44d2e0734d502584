"""Write the end into a record whose ranks could not: they were killed."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from busbw.model.record import RunStatus
from busbw.model.result import not_run
from busbw.record.folder import REQUEST_FILE, RUN_FILE
from busbw.record.request import requested
from busbw.record.results import forget_results, read_fields

_MOST_INDENTED: Final = 10_000


def close(folder: Path, status: RunStatus, ended: str, *, error: str = "", hint: str = "") -> bool:
    """Replace the end of the record in ``folder``, and give every case without a result its status; where the
    ranks never wrote a record, make one from the request. False where there is neither.

    Works on the plain JSON, so that whoever outlives a run can do it at once, without the readers' libraries.
    ``ended`` (ISO 8601) is taken only where the ranks wrote no time of their own.
    """
    fields = _fields(folder)
    if fields is None:
        return False
    results = fields["results"]
    cases = fields["plan"]["cases"] if "plan" in fields else ()
    fields["results"] = [*results, *_not_run(len(cases), len(results))]
    fields.update(status=status.value, ended=fields["ended"] or ended, error=error, hint=hint)
    partial = folder / f".{RUN_FILE}.closing"
    # Python's fast encoder knows no indentation, and nobody reads so many lines.
    indent = 1 if len(fields["results"]) <= _MOST_INDENTED else None
    partial.write_text(json.dumps(fields, indent=indent) + "\n")
    partial.replace(folder / RUN_FILE)
    forget_results(folder)
    return True


def _not_run(cases: int, finished: int) -> list[dict[str, Any]]:
    """``not_run`` as plain values: they differ in their number alone, and may be many."""
    found = not_run(cases, finished)
    plain = asdict(found[0]) if found else {}
    return [{**plain, "case": result.case} for result in found]


def _fields(folder: Path) -> dict[str, Any] | None:
    try:
        fields = read_fields(folder)
    except OSError:
        return asdict(requested(folder)) if (folder / REQUEST_FILE).is_file() else None
    return fields


def read_status(folder: Path) -> RunStatus | None:
    """How far the run in ``folder`` came by its own account; None where nothing was written yet."""
    try:
        return RunStatus(json.loads((folder / RUN_FILE).read_text())["status"])
    except OSError:
        return RunStatus.RUNNING if (folder / REQUEST_FILE).is_file() else None
