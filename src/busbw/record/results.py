"""Finished cases while a run is under way: JSON lines, appended, so that ten thousand cases cost no more a
case than ten. A case has a line for each of its passes, and the last one counts. At the end they move into
``run.json``. Such files are read along while they grow.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from busbw.errors import UsageError
from busbw.record.folder import RESULTS_FILE, RUN_FILE, naming
from busbw.record.json_text import DAMAGED_HINT, json_mapping, json_value


def append_line(path: Path, fields: object) -> None:
    """Keep one more line; a kill leaves whole lines but for the last."""
    with naming(path), path.open("a") as file:
        file.write(json.dumps(fields, separators=(",", ":"), default=vars) + "\n")


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
