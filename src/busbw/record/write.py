"""Writing a run folder so that whatever was finished survives a kill at any moment.

Samples are appended as whole fixed-size records; a cut file loses at most its last record. ``run.json`` is
replaced by rename after every case, so a reader never sees half of it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.model.record import RunRecord, RunStatus
from busbw.model.result import CaseResult, not_run
from busbw.record.folder import DIGESTS_FILE, RUN_FILE, SAMPLES_FILE

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class RunWriter:
    """The one writer of a run folder. Not thread safe: callers take turns (``worker.lead`` holds a lock)."""

    def __init__(self, folder: Path, record: RunRecord) -> None:
        self.folder = folder
        self.record = record
        self._store()

    def describe(self, **fields: object) -> None:
        """Fill in what became known after the start: world, method, machine."""
        self.record = replace(self.record, **fields)  # type: ignore[arg-type]
        self._store()

    def append(
        self, result: CaseResult, samples: npt.NDArray[np.void], digests: npt.NDArray[np.void]
    ) -> None:
        """Keep one finished case: raw records first, then the result that counts on them."""
        for path, rows in ((SAMPLES_FILE, samples), (DIGESTS_FILE, digests)):
            with (self.folder / path).open("ab") as file:
                file.write(rows.tobytes())
        self.record = replace(self.record, results=(*self.record.results, result))
        self._store()

    def finish(self, status: RunStatus, ended: str, *, error: str = "", hint: str = "") -> None:
        """The last words, and a status for every case that the run did not come to."""
        finished = self.record.results
        results = (*finished, *not_run(len(self.record.plan.cases), len(finished)))
        self.record = replace(
            self.record, status=status, results=results, ended=ended, error=error, hint=hint
        )
        self._store()

    def _store(self) -> None:
        write_record(self.folder, self.record)


def write_record(folder: Path, record: RunRecord) -> None:
    """Replace ``run.json`` whole."""
    partial = folder / f".{RUN_FILE}.new"
    partial.write_text(json.dumps(asdict(record), indent=1) + "\n")
    partial.replace(folder / RUN_FILE)
