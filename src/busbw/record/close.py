"""Write the end into a record whose ranks could not: they were killed.

Of ranks that were gone before they were connected there is a request, and no record yet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from busbw._version import __version__
from busbw.model.plan import Plan
from busbw.model.record import SCHEMA_VERSION, RunRecord, RunStatus
from busbw.model.result import not_run
from busbw.record.folder import REQUEST_FILE, RUN_FILE
from busbw.record.results import forget_results, read_fields, write_record
from busbw.redact import redact_all, redact_text


def close(
    folder: Path,
    status: RunStatus,
    ended: str,
    *,
    error: str = "",
    hint: str = "",
    hang: Mapping[str, Any] | None = None,
) -> bool:
    """Replace the end of the record in ``folder``, and give every case without a result its status; where the
    ranks never wrote a record, make one from the request. False where there is neither.

    Works on the plain JSON, so that a process that outlives a run can do it at once, without the
    readers' libraries. ``ended`` (ISO 8601) is taken only where the ranks wrote no time of their own;
    ``hang`` is a ``HangAnswer``.
    """
    try:
        fields = read_fields(folder)
    except OSError:
        if not (folder / REQUEST_FILE).is_file():
            return False
        write_record(folder, requested(folder))
        fields = read_fields(folder)
    results, cases = fields["results"], (fields.get("plan") or {}).get("cases", ())
    fields.update(
        results=[*results, *not_run(len(cases), len(results))],
        status=status.value,
        ended=fields["ended"] or ended,
        error=redact_text(error),
        hint=redact_text(hint),
    )
    if hang is not None:
        fields["hang"] = redact_all(hang)
    write_record(folder, fields)
    forget_results(folder)
    return True


def keep_answer(folder: Path, answer: Mapping[str, Any]) -> None:
    """Write what the run comes to (a ``RunAnswer``) into its record. Raises OSError."""
    write_record(folder, {**read_fields(folder), "answer": answer})


def read_status(folder: Path) -> RunStatus | None:
    """How far the run in ``folder`` came by its own account; None where nothing was written yet."""
    try:
        return RunStatus(json.loads((folder / RUN_FILE).read_text())["status"])
    except OSError:
        return RunStatus.RUNNING if (folder / REQUEST_FILE).is_file() else None


def requested(folder: Path) -> RunRecord:
    """What the request says of the run. Raises OSError where there is none, ValueError, KeyError or TypeError
    where it is damaged.
    """
    path = folder / REQUEST_FILE
    fields = json.loads(path.read_text())
    return RunRecord(
        schema=SCHEMA_VERSION,
        run_id=fields["run_id"],
        busbw_version=__version__,
        created=datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="milliseconds"),
        argv=tuple(fields["argv"]),
        settings=fields["settings"],
        plan=Plan.from_json(fields["plan"]),
        status=RunStatus.RUNNING,
    )
