"""What is said at the end of a run: the answer from its record, which the record keeps, and below the table
the verdict of ``--expect``.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from busbw.errors import BusbwError, UsageError
from busbw.model.event import Emit, Event, EventKind

if TYPE_CHECKING:
    from busbw.model.record import RunRecord
import contextlib
import sys

from busbw.errors import ExitCode
from busbw.plan.flags.run import RunSettings


class Ended:
    """Shows events, the last with the run's answer; keeps the folder of the run that has ended."""

    def __init__(self, *shows: Emit) -> None:
        self._shows = shows
        self._prepared: dict[str, Any] | None = None
        self.folder: Path | None = None

    def prepare(self, folder: Path) -> None:
        """Make the answer from a record that is complete, before the run has ended."""
        self._prepared = _kept(folder)

    def __call__(self, item: Event) -> None:
        """An Emit."""
        if item["event"] == EventKind.ERROR:
            self._prepared = None  # the run did not end as its record was
        if item["event"] == EventKind.END and item.get("folder"):
            self.folder = Path(item["folder"])
            answer = self._prepared if self._prepared is not None else _kept(self.folder)
            item = {**item, "answer": answer}
        for show in self._shows:
            show(item)


def load_answer() -> None:
    """Load what an answer takes, while the ranks measure: it takes a third of a second."""
    with suppress(ModuleNotFoundError):
        from busbw.cli import diagnose
        from busbw.record.read import load_readers
        from busbw.report import answer

        del answer, diagnose
        load_readers()


def _kept(folder: Path) -> dict[str, Any]:
    """The answer, which is in the record from now on; empty where there is none. A run that was measured is
    worth more than what can be said of it: no error of saying it ends the run, nor do pods to which busbw was
    sent without what judges.
    """
    from busbw.record.close import keep_answer
    from busbw.record.folder import LAST
    from busbw.record.read import read_record

    try:
        answer = answered(read_record(folder), folder, LAST)
        if answer:
            keep_answer(folder, answer)
    except (BusbwError, OSError, ModuleNotFoundError):
        return {}
    return answer


def answered(record: RunRecord, folder: Path, name: str) -> dict[str, Any]:
    """The fields of a RunAnswer, where commands call the run ``name``; empty for what has none."""
    is_race = any(case.arm for case in record.plan.cases)
    if record.plan.hunt is not None or record.plan.preflight.stops or is_race or not record.results:
        return {}
    from busbw.cli.diagnose import subject_of
    from busbw.judge.diagnose.engine import warn
    from busbw.record.read import read_digests, read_samples
    from busbw.report.answer import answer_of

    subject = subject_of(record, None)
    with suppress(UsageError):  # samples that cannot be read, as where polars is not installed: less is said
        subject = replace(subject, samples=read_samples(folder), digests=read_digests(folder))
    return asdict(answer_of(record, subject.expectation, warn(subject), name))


def check_references(settings: RunSettings, files: tuple[Path, ...] | None = None) -> None:
    """Raises UsageError for a reference that is not there, before anything is measured. ``files`` are preset
    files in place of the user's.
    """
    if settings.expect:
        from busbw.judge.references import load
        from busbw.record.folder import environ_home

        for name in _references(settings.expect, files):
            load.find(name, environ_home())


def judged(code: ExitCode, folder: Path | None, settings: RunSettings) -> ExitCode:
    """The exit code of a run with its verdict, which is printed: below the table, or beside data for a
    program on stderr. A run that did not end by itself, or had wrong data, keeps its own code.
    """
    if not settings.expect or folder is None or code > ExitCode.BAD_VERDICT:
        return code
    from busbw.cli.expect import judge
    from busbw.plan.flags.compare import ExpectSettings
    from busbw.record.folder import LAST
    from busbw.record.read import read_record

    aside = contextlib.nullcontext() if settings.format == "table" else contextlib.redirect_stdout(sys.stderr)
    with aside:
        options = ExpectSettings(reference=_references(settings.expect))
        verdict = judge((read_record(folder),), options, "table", LAST)
    return verdict if code is ExitCode.OK else code


def _references(names: tuple[str, ...], files: tuple[Path, ...] | None = None) -> tuple[str, ...]:
    """A preset stands for its references. Raises UsageError where it has none."""
    from busbw.cli.preset_values import user_files
    from busbw.plan.presets import preset

    files = user_files() if files is None else files
    found: list[str] = []
    for name in names:
        if name.partition("@")[0] not in preset.names(files):
            found.append(name)
            continue
        references = preset.read_preset(name, files).references
        if not references:
            raise UsageError(f"preset {name} has no reference", hint="see `busbw expect --list`")
        found += references
    return tuple(found)
