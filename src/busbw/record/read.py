"""Run folder to RunRecord, checked by pydantic at this edge."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from busbw.errors import UsageError
from busbw.model.record import SCHEMA_VERSION, RunRecord
from busbw.model.sample import DIGEST_DTYPE, SAMPLE_DTYPE
from busbw.record.folder import DIGESTS_FILE, DIGESTS_PARQUET, RUN_FILE, SAMPLES_FILE, SAMPLES_PARQUET
from busbw.record.results import read_fields

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@cache
def record_adapter() -> TypeAdapter[RunRecord]:
    """Validation and JSON schema of a record."""
    from pydantic import TypeAdapter

    return TypeAdapter(RunRecord)


def read_record(folder: Path) -> RunRecord:
    """The record in a run folder. Raises UsageError where it is missing, damaged or of an unknown schema."""
    from pydantic import ValidationError

    path = folder / RUN_FILE
    try:
        fields: Any = read_fields(folder)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {error}", hint="`busbw list` names the runs") from error
    schema = fields.get("schema") if isinstance(fields, dict) else None
    if schema != SCHEMA_VERSION:
        raise UsageError(
            f"{path} has record schema {schema}; this busbw reads {SCHEMA_VERSION}",
            hint="read it with the busbw that wrote it (busbw_version in the file)",
        )
    try:
        return record_adapter().validate_python(fields)
    except ValidationError as error:
        raise UsageError(
            f"{path} is not a valid record: {error.error_count()} fields differ\n{error}",
            hint="it was changed or cut after it was written; restore it from a copy",
        ) from error


def read_samples(folder: Path) -> npt.NDArray[np.void]:
    """All kept samples, as SAMPLE_DTYPE rows: from raw segments, or from Parquet once compacted."""
    return _rows(folder / SAMPLES_FILE, folder / SAMPLES_PARQUET, SAMPLE_DTYPE)


def read_digests(folder: Path) -> npt.NDArray[np.void]:
    """Per case and rank digests, as DIGEST_DTYPE rows."""
    return _rows(folder / DIGESTS_FILE, folder / DIGESTS_PARQUET, DIGEST_DTYPE)


def _rows(raw: Path, parquet: Path, dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
    if raw.is_file():
        data = raw.read_bytes()
        # A run that was killed may end in the middle of a record.
        return np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype)
    if not parquet.is_file():
        return np.empty(0, dtype)
    from busbw.record.parquet import read_rows

    return read_rows(parquet, dtype)
