"""``busbw list``: earlier runs, newest first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from busbw.errors import BusbwError, ExitCode
from busbw.model.record import RunRecord, RunStatus
from busbw.record.folder import environ_home, is_started, run_folders
from busbw.record.owner import is_abandoned
from busbw.record.read import read_record
from busbw.record.request import requested


def list_runs(format_name: str, limit: int) -> ExitCode:
    """One line a run; a run that cannot be read is listed with the reason, not left out."""
    rows = [_row(folder) for folder in run_folders(environ_home())[:limit]]
    if format_name == "json":
        print(json.dumps(rows, indent=1))
        return ExitCode.OK
    for row in rows:
        ranks = f"{row['ranks']} ranks" if row.get("ranks") else ""
        print(
            f"{row['run']}  {row['status']:<13}  {row.get('backend', ''):<5}  {ranks:>10}"
            f"  {row.get('cases', '')!s:>9}  {row.get('operations', '')}".rstrip()
        )
    return ExitCode.OK


def _row(folder: Path) -> dict[str, Any]:
    started = is_started(folder)
    try:
        record = read_record(folder) if started else requested(folder)
    except BusbwError as error:
        return {"run": folder.name, "status": f"unreadable: {error.message}"}
    except (OSError, ValueError, KeyError, TypeError) as error:
        return {"run": folder.name, "status": f"unreadable: {error!r} in the request"}
    operations = dict.fromkeys(case.collective for case in record.plan.cases)
    return {
        "run": folder.name,
        "status": _status(folder, record) if started else "not started",
        "backend": record.plan.backend,
        "ranks": record.world.size if record.world is not None else None,
        "cases": f"{len(record.finished)}/{len(record.plan.cases)}",
        "operations": ",".join(operations),
    }


def _status(folder: Path, record: RunRecord) -> str:
    """How far the run came; `killed` where nobody is left to write its end."""
    if record.status is RunStatus.RUNNING and is_abandoned(folder):
        return "killed"
    return record.status.value
