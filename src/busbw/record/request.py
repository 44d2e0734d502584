"""A run of which only the request was written: its ranks were gone before they were connected."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from busbw._version import __version__
from busbw.model.plan import Plan
from busbw.model.record import SCHEMA_VERSION, RunRecord, RunStatus
from busbw.record.folder import REQUEST_FILE


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
