"""A run folder, opened for reading: ``busbw.open_run``."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.analysis import frames
from busbw.analysis.lacking import lacking
from busbw.errors import UsageError
from busbw.model.record import RunRecord
from busbw.model.sample import DIGEST_DTYPE, SAMPLE_DTYPE
from busbw.record.absent import absent_files, is_there
from busbw.record.folder import (
    DIGESTS_FILE,
    LAST,
    RESULTS_FILE,
    SAMPLES_FILE,
    environ_home,
    find_run,
    is_started,
    launch_folders,
)
from busbw.record.parquet import cut_notes, cut_segment
from busbw.record.read import read_digests, read_record, read_samples

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class Run:
    """One run. The record is read at once, frames when they are first asked for.

    ``results`` has one row a case, ``samples`` one a kept sample, ``digests`` one a case and rank; their
    columns and units are in docs/guides/notebook.md. Frames need polars: without it, UsageError names the
    extra. ``warnings`` says what of the folder could not be read; samples that are missing from it are said
    by a UserWarning when they are first asked for.
    """

    folder: Path
    record: RunRecord
    warnings: tuple[str, ...] = ()

    @cached_property
    def results(self) -> pl.DataFrame:
        """One row a case of the plan, measured or not."""
        return frames.results(self.record)

    @cached_property
    def samples(self) -> pl.DataFrame:
        """One row a kept sample; rank -1 is the maximum over ranks."""
        frames.require_polars()
        self._say_where_samples_are()
        rows = read_samples(self.folder)
        if is_there(self.folder, SAMPLES_FILE):
            for case in lacking(self.record, rows, read_digests(self.folder)):
                warnings.warn(f"{self.folder}: {case}", stacklevel=3)
        return frames.samples(rows)

    @cached_property
    def digests(self) -> pl.DataFrame:
        """One row a case and rank."""
        frames.require_polars()
        self._say_where_samples_are()
        return frames.digests(read_digests(self.folder), self.record.world)

    def _say_where_samples_are(self) -> None:
        """The summary of several launches has none; theirs are not put together, as each is a run."""
        if launches := launch_folders(self.folder):
            text = (
                f"{self.folder} is the summary of {len(launches)} launches, and has no samples or digests of"
                f" its own; open_run() takes the folder of each: {', '.join(map(str, launches))}"
            )
            warnings.warn(text, stacklevel=4)


def open_run(run: str | Path = LAST) -> Run:
    """Open a run by its folder, its name or the start of one, or ``last``.

    What a kill cut off, and files that are gone, are said by UserWarnings and in ``Run.warnings``. Raises
    UsageError where there is no such run, or its record cannot be read.
    """
    folder = started_folder(run)
    record = read_record(folder)
    said = (*cut_files(folder), *absent_files(folder, record))
    for text in said:
        warnings.warn(text, stacklevel=2)
    return Run(folder, record, said)


def started_folder(run: str | Path) -> Path:
    """The folder of a run that has a record. Raises UsageError where there is none."""
    folder = find_run(str(run), environ_home())
    if not is_started(folder):
        raise UsageError(
            f"the run in {folder} never started: it ended before its ranks were connected",
            hint="request/commands.txt there is what was started, log/ranks.log what the ranks said",
        )
    return folder


def cut_files(folder: Path) -> tuple[str, ...]:
    """What is left over behind the whole records of raw files, which a kill in the middle of a write cuts,
    also where they have become Parquet since.
    """
    raw_files = ((SAMPLES_FILE, SAMPLE_DTYPE), (DIGESTS_FILE, DIGEST_DTYPE))
    cuts = [cut_segment(folder, raw, dtype) for raw, dtype in raw_files if (folder / raw).is_file()]
    said = [f"{folder}/{cut}" for cut in (*cut_notes(folder), *cuts) if cut]
    lines = folder / RESULTS_FILE
    if lines.is_file() and (left := lines.read_bytes().rpartition(b"\n")[2]):
        said.append(f"{lines} is cut: {len(left)} bytes of a last line are left out")
    return tuple(said)
