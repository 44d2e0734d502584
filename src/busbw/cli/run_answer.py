"""The answer at the end of a run, from its record: printed below the table, and kept in the record."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from busbw.errors import BusbwError, UsageError
from busbw.model.event import Emit, Event, EventKind

if TYPE_CHECKING:
    from busbw.judge.diagnose.subject import Subject
    from busbw.model.record import RunRecord


class Ended:
    """Shows events, the last one with the run's answer, and keeps the folder of the run that has ended with
    its record written.
    """

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
    """The fields of a RunAnswer, for commands that call the run ``name``; empty for what is no measurement,
    or has none.
    """
    is_race = any(case.arm for case in record.plan.cases)
    if record.plan.hunt is not None or record.plan.preflight.stops or is_race or not record.results:
        return {}
    from busbw.cli.diagnose import subject_of
    from busbw.judge.diagnose.engine import warn
    from busbw.report.answer import answer_of

    subject = _with_samples(subject_of(record, None), folder)
    return asdict(answer_of(record, subject.expectation, warn(subject), name))


def _with_samples(subject: Subject, folder: Path) -> Subject:
    """Without those that cannot be read, as where polars is not installed: less is said then."""
    from busbw.record.read import read_digests, read_samples

    try:
        return replace(subject, samples=read_samples(folder), digests=read_digests(folder))
    except UsageError:
        return subject
