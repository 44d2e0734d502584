"""Writing a run folder so that whatever was finished survives a kill at any moment.

Samples are appended as whole fixed-size records, results as whole lines; a cut file loses at most its last
one. ``run.json`` is replaced by rename, so a reader never sees half of it.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.model.record import RunRecord, RunStatus
from busbw.model.result import CaseResult, not_run
from busbw.record.folder import DIGESTS_FILE, RESULTS_FILE, SAMPLES_FILE, WRITER_FILE, naming
from busbw.record.owner import Owner
from busbw.record.results import append_line, forget_results, write_record

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class RunWriter:
    """The one writer of a run folder. Not thread safe: callers take turns (``rank.rank0`` holds a lock)."""

    def __init__(self, folder: Path, record: RunRecord) -> None:
        self.folder = folder
        self.record = record
        self._results: list[CaseResult] = []
        self._passed: dict[int, CaseResult] = {}  # of cases that are not finished
        self._alive = Owner(folder, WRITER_FILE)  # held for as long as this process is there
        with contextlib.suppress(OSError):
            self._alive.take()
        write_record(folder, record)

    def describe(self, **fields: object) -> None:
        """Fill in what became known after the start: world, method, machine."""
        self.record = replace(self.record, **fields)  # type: ignore[arg-type]
        write_record(self.folder, self.record)

    def note(self, result: CaseResult) -> None:
        """Keep what is known of a case so far."""
        append_line(self.folder / RESULTS_FILE, result)
        self.hold(result)

    def hold(self, result: CaseResult) -> None:
        """Keep what is known of a case for the end alone."""
        self._passed[result.case] = result

    def append(
        self, result: CaseResult, samples: npt.NDArray[np.void], digests: npt.NDArray[np.void]
    ) -> None:
        """Keep one finished case: raw records first, then the result that counts on them."""
        for path, rows in ((SAMPLES_FILE, samples), (DIGESTS_FILE, digests)):
            with naming(self.folder / path), (self.folder / path).open("ab") as file:
                file.write(rows.tobytes())
        append_line(self.folder / RESULTS_FILE, result)
        self._results.append(result)
        self._passed.pop(result.case, None)

    def finish(self, status: RunStatus, ended: str, *, error: str = "", hint: str = "") -> None:
        """The last words, and a status for every case that the run did not come to."""
        finished = [*self._results, *self.unfinished]
        results = (*finished, *not_run(len(self.record.plan.cases), len(finished)))
        self.record = replace(
            self.record, status=status, results=results, ended=ended, error=error, hint=hint
        )
        write_record(self.folder, self.record)
        forget_results(self.folder)

    @property
    def unfinished(self) -> tuple[CaseResult, ...]:
        """What is known of cases that passes were still to come of."""
        return tuple(self._passed.values())
