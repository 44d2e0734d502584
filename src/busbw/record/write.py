"""Writing a run folder so that whatever was finished survives a kill at any moment.

Samples are appended as whole fixed-size records, results as whole lines; a cut file loses at most its last
one. ``run.json`` is replaced by rename, so a reader never sees half of it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from busbw.model.record import RunRecord, RunStatus
from busbw.model.result import CaseResult, not_run
from busbw.record.folder import (
    DIGESTS_FILE,
    RESULTS_FILE,
    RUN_FILE,
    SAMPLES_FILE,
    WRITER_FILE,
    naming,
    replace_text,
)
from busbw.record.owner import Owner
from busbw.record.results import append_line, forget_results
from busbw.redact import redact_all

# Fields that quote variables, command lines and logs. The others are numbers and names of devices.
_QUOTING: Final = frozenset(
    ("argv", "settings", "machine", "environment", "error", "hint", "source", "findings", "hunt", "soak")
)

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


def write_record(folder: Path, record: RunRecord | Mapping[str, Any]) -> None:
    """Replace ``run.json`` whole: by a record, whose secrets are hidden, or by the fields of one as they were
    read from it.
    """
    fields = record if isinstance(record, Mapping) else _without_secrets(record)
    replace_text(folder / RUN_FILE, _text(fields))


def _without_secrets(record: RunRecord) -> dict[str, Any]:
    return {
        name: redact_all(value, name) if name in _QUOTING else value for name, value in vars(record).items()
    }


def _text(fields: Mapping[str, Any]) -> Iterator[str]:
    """The JSON of a record, in pieces: one line a field, one line a case and a result.

    A record can have a million of these, so no second copy of it is made: neither of values nor of text.
    """
    yield "{\n"
    for number, (name, value) in enumerate(fields.items()):
        yield f'{"," if number else ""}"{name}":'
        if name == "plan":
            head = dict(value if isinstance(value, Mapping) else vars(value))
            cases = head.pop("cases")
            yield f'{_encode(head)[:-1]},"cases":'
            yield from _lines(cases)
            yield "}\n"
        elif name == "results":
            yield from _lines(value)
        else:
            yield _encode(value) + "\n"
    yield "}\n"


def _lines(values: Iterable[Any]) -> Iterator[str]:
    between = "[\n"
    for value in values:
        yield between + _encode(value)
        between = ",\n"
    yield "]\n" if between != "[\n" else "[]\n"


# A dataclass is an object of its fields, in their order, as in ``asdict``, which would copy them first.
_encode: Final = json.JSONEncoder(separators=(",", ":"), default=vars).encode
