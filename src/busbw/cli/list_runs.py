"""``busbw list``: earlier runs, newest first."""

from __future__ import annotations

import json
from typing import Any

from busbw.errors import BusbwError, ExitCode
from busbw.record.folder import environ_home, run_folders
from busbw.record.read import read_record


def list_runs(format_name: str, limit: int) -> ExitCode:
    """One line a run; a run that cannot be read is listed with the reason, not left out."""
    rows: list[dict[str, Any]] = []
    for folder in run_folders(environ_home())[:limit]:
        try:
            record = read_record(folder)
        except BusbwError as error:
            rows.append({"run": folder.name, "status": f"unreadable: {error.message}"})
            continue
        operations = dict.fromkeys(case.collective for case in record.plan.cases)
        rows.append(
            {
                "run": folder.name,
                "status": record.status.value,
                "backend": record.plan.backend,
                "ranks": record.world.size if record.world is not None else None,
                "cases": f"{len(record.results)}/{len(record.plan.cases)}",
                "operations": ",".join(operations),
            }
        )
    if format_name == "json":
        print(json.dumps(rows, indent=1))
        return ExitCode.OK
    for row in rows:
        ranks = f"{row['ranks']} ranks" if row.get("ranks") else ""
        print(
            f"{row['run']}  {row['status']:<11}  {row.get('backend', ''):<5}  {ranks:>10}"
            f"  {row.get('cases', '')!s:>9}  {row.get('operations', '')}".rstrip()
        )
    return ExitCode.OK
