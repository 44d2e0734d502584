"""Write the end into a record whose ranks could not: they were killed."""

from __future__ import annotations

import json
from pathlib import Path

from busbw.model.record import RunStatus
from busbw.record.folder import RUN_FILE


def close(folder: Path, status: RunStatus, ended: str, *, error: str = "", hint: str = "") -> bool:
    """Replace the end of the record in ``folder``; False where the run had none yet.

    Works on the plain JSON, so that whoever outlives a run can do it at once, without the readers' libraries.
    ``ended`` (ISO 8601) is taken only where the ranks wrote no time of their own.
    """
    path = folder / RUN_FILE
    try:
        fields = json.loads(path.read_text())
    except OSError:
        return False
    fields.update(status=status.value, ended=fields["ended"] or ended, error=error, hint=hint)
    partial = folder / f".{RUN_FILE}.closing"
    partial.write_text(json.dumps(fields, indent=1) + "\n")
    partial.replace(path)
    return True


def read_status(folder: Path) -> RunStatus | None:
    """How far the run in ``folder`` came by its own account; None where nothing was written yet."""
    try:
        return RunStatus(json.loads((folder / RUN_FILE).read_text())["status"])
    except OSError:
        return None
