"""Run folder to RunRecord, checked by pydantic at this edge."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from busbw.errors import UsageError
from busbw.model.mark import in_todays_words
from busbw.model.record import READABLE_SCHEMAS, RunRecord
from busbw.model.sample import DIGEST_DTYPE, HEADLINE, SAMPLE_DTYPE
from busbw.record.checked import adapter, validated
from busbw.record.folder import DIGESTS_FILE, ROUNDS_FILE, RUN_FILE, SAMPLES_FILE, SEGMENTS
from busbw.record.json_text import DAMAGED_HINT, json_mapping
from busbw.record.results import read_fields

_LONGEST_NS: Final = 2**60  # 36 years
_SHORTEST_NS: Final = 1e-6  # of a call that is one of a million in a sample of 1 ns; bits of damage are less
# Below 0: rows that are of all ranks, and times that are not known.
_LEAST: Final = {"rank": HEADLINE, "issue_ns": -1, "run_delay_ns": -1, "flags": 0}


def load_readers() -> None:
    """Make what reads a record, so that the first one is read at once."""
    import busbw.record.shapes  # noqa: F401

    adapter(RunRecord)


def read_record(folder: Path) -> RunRecord:
    """The record in a run folder. Raises UsageError where it is missing, damaged or of an unknown schema."""
    from busbw.record.shapes import check_record, check_sense

    path = folder / RUN_FILE
    try:
        fields = read_fields(folder)
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", hint="`busbw list` names the runs"
        ) from error
    schema = fields.get("schema")
    if schema not in READABLE_SCHEMAS:
        raise UsageError(
            f"{path} has record schema {schema}; this busbw reads {' and '.join(map(str, READABLE_SCHEMAS))}",
            hint="read it with the busbw that wrote it (busbw_version in the file)",
        )
    text = json.dumps(fields)
    record: RunRecord = validated(adapter(RunRecord), text, str(path), DAMAGED_HINT)
    check_record(text, str(path))
    check_sense(record, str(path))
    return replace(record, results=tuple(map(in_todays_words, record.results)))


def read_rounds(folder: Path) -> Sequence[dict[str, Any]]:
    """The rounds of a hunt, as far as they were written and can be read."""
    from busbw.record.shapes import check_round

    try:
        lines = (folder / ROUNDS_FILE).read_text(errors="replace").splitlines()
    except OSError:
        return ()
    found: list[dict[str, Any]] = []
    names: dict[str, list[str]] = {}  # of the parts that are tested: the same in all rounds of a kind
    for number, line in enumerate(lines, 1):
        where = f"{folder / ROUNDS_FILE}, line {number}"
        try:
            fields = json_mapping(line, where, "")
            check_round(fields, where)
        except UsageError:
            continue  # the caller knows how many there should be
        if names.setdefault(fields["kind"], fields["names"]) == fields["names"]:
            found.append(fields)
    return found


def read_samples(folder: Path) -> npt.NDArray[np.void]:
    """All kept samples, as SAMPLE_DTYPE rows: from raw segments, or from Parquet once compacted."""
    return _rows(folder, SAMPLES_FILE, SAMPLE_DTYPE)


def read_digests(folder: Path) -> npt.NDArray[np.void]:
    """Per case and rank digests, as DIGEST_DTYPE rows."""
    return _rows(folder, DIGESTS_FILE, DIGEST_DTYPE)


def _rows(folder: Path, name: Path, dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
    raw, parquet = folder / name, folder / SEGMENTS[name]
    if raw.is_file():
        data = raw.read_bytes()
        # A run that was killed may end in the middle of a record.
        return _possible(raw, np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype))
    if not parquet.is_file():
        return np.empty(0, dtype)
    from busbw.record.parquet import read_rows

    return _possible(parquet, read_rows(parquet, dtype))


def _possible(path: Path, rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """The rows, of which none has a number that cannot be. Raises UsageError naming the first that has."""
    for name in rows.dtype.names or ():
        column = rows[name]
        least = _LEAST.get(name, 1 if name == "k" else 0)
        with np.errstate(invalid="ignore"):
            tiny = (column > 0) & (column < _SHORTEST_NS)
            bad = np.flatnonzero(~((column >= least) & (column <= _LONGEST_NS)) | tiny)
        if len(bad):
            raise UsageError(
                f"{path}: {name} of record {bad[0]} is {column[bad[0]]}, which cannot be", hint=DAMAGED_HINT
            )
    return rows
