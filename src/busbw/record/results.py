"""Finished cases while a run is under way: one JSON line each, appended, so that ten thousand cases cost no
more a case than ten. At the end they move into ``run.json``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from busbw.model.result import CaseResult
from busbw.record.folder import RESULTS_FILE, ROUNDS_FILE, RUN_FILE


def append_result(folder: Path, result: CaseResult) -> None:
    """Keep one more result; a kill leaves whole lines but for the last."""
    with (folder / RESULTS_FILE).open("a") as file:
        file.write(json.dumps(asdict(result), separators=(",", ":")) + "\n")


def append_round(folder: Path, tested: dict[str, Any]) -> None:
    """Keep one more round of a hunt."""
    with (folder / ROUNDS_FILE).open("a") as file:
        file.write(json.dumps(tested, separators=(",", ":")) + "\n")


def read_rounds(folder: Path) -> Sequence[dict[str, Any]]:
    """The rounds of a hunt, as far as they were written and can be read."""
    try:
        text = (folder / ROUNDS_FILE).read_text(errors="replace")
    except OSError:
        return ()
    return [each for each in map(_or_none, text.splitlines()) if isinstance(each, dict)]


def read_fields(folder: Path) -> dict[str, Any]:
    """The record as plain JSON values, with what was finished since it was written. Raises OSError, and
    ValueError where it is damaged.
    """
    fields: Any = json.loads((folder / RUN_FILE).read_text())
    lines = _whole_lines(folder / RESULTS_FILE)
    if lines and isinstance(fields, dict):
        fields["results"] = lines
    return fields  # type: ignore[no-any-return]  # callers check what they read


def forget_results(folder: Path) -> None:
    """They are in the record now."""
    (folder / RESULTS_FILE).unlink(missing_ok=True)


def _or_none(line: str) -> object:
    """What a line has; None of one that is damaged."""
    try:
        found: object = json.loads(line)
    except ValueError:
        return None
    return found


def _whole_lines(path: Path) -> Sequence[Any]:
    try:
        text = path.read_text()
    except OSError:
        return ()
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
