"""The file of a record, ``run.json``, and its finished cases while a run is under way: JSON lines, appended,
so that ten thousand cases cost no more a case than ten. A case has a line for each of its passes, and the
last one counts. At the end they move into ``run.json``. Such files are read along while they grow.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from busbw.errors import UsageError
from busbw.record.folder import RESULTS_FILE, RUN_FILE, naming, replace_text
from busbw.record.json_text import DAMAGED_HINT, json_mapping, json_value
from busbw.redact import redact_all

if TYPE_CHECKING:
    from busbw.model.record import RunRecord

# A dataclass is an object of its fields, in their order, as in ``asdict``, which would copy them first.
_encode: Final = json.JSONEncoder(separators=(",", ":"), default=vars).encode
# Fields that quote variables, command lines and logs. The others are numbers and names of devices.
_QUOTING: Final = frozenset(
    ("argv", "settings", "machine", "environment", "error", "hint", "source", "findings", "hunt", "soak")
)


def append_line(path: Path, fields: object) -> None:
    """Keep one more line; a kill leaves whole lines but for the last."""
    with naming(path), path.open("a") as file:
        file.write(_encode(fields) + "\n")


def read_fields(folder: Path) -> dict[str, Any]:
    """The record as plain JSON values, with what was finished since it was written. Raises OSError where
    there is none, and UsageError where it is damaged.
    """
    path = folder / RUN_FILE
    try:
        fields = json_mapping(path.read_text(encoding="utf-8"), str(path), DAMAGED_HINT)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text: {error}", hint=DAMAGED_HINT) from error
    finished, text = folder / RESULTS_FILE, ""
    with contextlib.suppress(OSError):
        text = finished.read_text(errors="replace")
    by_case = {}
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if line.endswith("\n"):
            result = json_value(line, f"{finished}, line {number}", DAMAGED_HINT)
            by_case[result["case"]] = result
    if by_case:
        fields["results"] = [*by_case.values()]
    return fields


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


def forget_results(folder: Path) -> None:
    """They are in the record now."""
    (folder / RESULTS_FILE).unlink(missing_ok=True)


class GrowingFile:
    """The lines of a file, each once, from the first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new_lines(self) -> Iterator[bytes]:
        """The lines that came since; one whose end is still to come waits for it, as does a file."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        yield from whole.splitlines()
