"""A run folder, opened for reading: ``busbw.open_run`` and ``busbw.runs``."""

from __future__ import annotations

import contextlib
import html
import io
import warnings
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from busbw.errors import UsageError
from busbw.judge.run import cut_files, digests, require_polars, results, samples, started_folder
from busbw.judge.samples import missing_samples
from busbw.model.record import RunRecord
from busbw.record.absent import absent_files, is_there
from busbw.record.folder import LAST, SAMPLES_FILE, environ_home, is_started, launch_folders, run_folders
from busbw.record.read import read_digests, read_record, read_samples

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from busbw.report.plots import Picture


@dataclass(frozen=True)
class Run:
    """One run. Everything is read when it is first asked for.

    ``df`` has one row a case, ``samples`` one a kept sample, ``digests`` one a case and rank; their columns
    and units are in docs/reference/frames.md. Frames need polars: without it, UsageError names the extra.
    Samples that are missing from the folder are said by a UserWarning when they are first asked for.
    """

    folder: Path

    @cached_property
    def record(self) -> RunRecord:
        """The record as a value. Raises UsageError where it cannot be read."""
        return read_record(self.folder)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What of the folder could not be read."""
        return (*cut_files(self.folder), *absent_files(self.folder, self.record))

    @cached_property
    def df(self) -> pl.DataFrame:
        """One row a case of the plan, measured or not."""
        return results(self.record)

    @cached_property
    def samples(self) -> pl.DataFrame:
        """One row a kept sample; rank -1 is the maximum over ranks."""
        require_polars()
        self._say_where_samples_are()
        rows = read_samples(self.folder)
        if is_there(self.folder, SAMPLES_FILE):
            for case in missing_samples(self.record, rows, read_digests(self.folder)):
                warnings.warn(f"{self.folder}: {case}", stacklevel=3)
        return samples(rows)

    @cached_property
    def digests(self) -> pl.DataFrame:
        """One row a case and rank."""
        require_polars()
        self._say_where_samples_are()
        return digests(read_digests(self.folder), self.record.world)

    def to_pandas(self) -> pd.DataFrame:
        """``df`` as a pandas frame. Raises UsageError naming the extra where pandas or pyarrow lacks."""
        missing = [name for name in ("pandas", "pyarrow") if find_spec(name) is None]
        if missing:
            raise UsageError(
                f"to_pandas needs {' and '.join(missing)}, not installed",
                hint="pip install '.[analysis]' in a clone of busbw brings it",
            )
        return self.df.to_pandas()

    def plot(self, name: str = "") -> Picture:
        """The first plot of ``busbw report`` whose name contains ``name``, as an altair chart. Raises
        UsageError where there is none, or altair is not installed.
        """
        from busbw.cli.report import shown
        from busbw.report import plots
        from busbw.report.view import view

        plots.require()
        found = view(shown([str(self.folder)])).every_plot
        every = {plot.name.removeprefix(f"{self.folder.name}-"): plot for plot in found}
        chosen = next((plot for own, plot in every.items() if name in own), None)
        if chosen is None:
            names = ", ".join(every) or "none"
            raise UsageError(f"{self.folder.name} has no plot {name!r}", hint=f"it has: {names}")
        return plots.chart(chosen)

    def __repr__(self) -> str:
        from busbw.cli.list_runs import row_of

        row = row_of(self.folder, self.folder.name)
        ranks = f"{row.ranks} ranks" if row.ranks else ""
        peak = f"peak {row.peak_busbw_gb_per_s:.4g} GB/s" if row.peak_busbw_gb_per_s is not None else ""
        words = (",".join(row.operations), ranks, row.device or row.backend, peak, row.verdict)
        return f"<Run {row.run}: {', '.join(filter(None, words))}>"

    def _repr_html_(self) -> str:
        """The table that ``busbw show`` prints, for a notebook."""
        from busbw.cli.show import show

        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            show(str(self.folder))
        return f"<pre>{html.escape(text.getvalue())}</pre>"

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
    opened = Run(started_folder(run))
    for text in opened.warnings:
        warnings.warn(text, stacklevel=2)
    return opened


def runs() -> list[Run]:
    """Every run of this home that has a record, newest first."""
    return [Run(folder) for folder in run_folders(environ_home()) if is_started(folder)]
