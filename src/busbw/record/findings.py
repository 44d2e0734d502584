"""Findings that a front process made before there were ranks: kept beside the request, and put into the
record once it is there, before those of the ranks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Final

from busbw.model.finding import Finding
from busbw.record.exclude import with_lost
from busbw.record.folder import RUN_FILE, replace_text
from busbw.record.results import read_fields
from busbw.redact import redact_all

_FILE: Final = Path("request") / "findings.json"


def keep(folder: Path, findings: Iterable[Finding]) -> None:
    """Lay them beside the request; nothing where there are none."""
    values = redact_all([asdict(finding) for finding in findings])
    if values:
        (folder / _FILE).write_text(json.dumps(values) + "\n")


def merge(folder: Path) -> None:
    """Put what was kept into the record of a run that has ended, once."""
    kept = folder / _FILE
    if not kept.is_file() or not (folder / RUN_FILE).is_file():
        return
    fields = read_fields(folder)
    found = json.loads(kept.read_text())
    fields["findings"] = [*found, *fields.get("findings", ())]
    fields["hunt"] = with_lost(fields.get("hunt", {}), found)
    replace_text(folder / RUN_FILE, (json.dumps(fields, indent=1), "\n"))
    kept.unlink()
