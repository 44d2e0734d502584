"""A run folder as frames, and what of it cannot be read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Final, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from busbw.errors import UsageError
from busbw.model.case import Case
from busbw.model.record import RunRecord, WorldInfo
from busbw.model.result import CaseResult, Status
from busbw.model.sample import DIGEST_DTYPE, SAMPLE_DTYPE
from busbw.record.folder import (
    DIGESTS_FILE,
    LAUNCHES,
    RESULTS_FILE,
    SAMPLES_FILE,
    SERIES_FILE,
    environ_home,
    find_run,
    is_started,
)
from busbw.record.parquet import cut_segment

if TYPE_CHECKING:
    import polars as pl


# The position in the plan is one column, ``case``, as in the sample table.
_CASE_FIELDS: Final = tuple(field.name for field in fields(Case) if field.name != "index")
_RESULT_FIELDS: Final = tuple(field.name for field in fields(CaseResult) if field.name != "case")
_RUN_COLUMNS: Final[Mapping[str, type]] = {
    "run_id": str,
    "case": int,
    "ranks": int,
    "mode": str,
    "time": str,
    "arrival": str,
}


def require_polars() -> None:
    """Raises UsageError naming the extra where polars is not installed."""
    if find_spec("polars") is None:
        raise UsageError(
            "frames need polars, which is not installed",
            hint="pip install '.[analysis]' in a clone of busbw brings it",
        )


def results(record: RunRecord) -> pl.DataFrame:
    """One row a case of the plan: which run, how it was timed, every field of Case and of CaseResult.

    A case that the run did not come to has the status ``not-run``. What is null was not measured, does not
    exist, or is not known.
    """
    require_polars()
    import polars as pl

    found = {result.case for result in record.results}
    missing = (case.index for case in record.plan.cases if case.index not in found)
    every = (*record.results, *(CaseResult(case, Status.NOT_RUN) for case in missing))
    size, timing = record.world.size if record.world is not None else None, record.plan.timing
    timed = (timing.mode, timing.time, timing.arrival) if record.method is not None else (None, None, None)
    rows = [
        [
            *(record.run_id, result.case, size, *timed),
            *(_plain(getattr(record.plan.cases[result.case], name)) for name in _CASE_FIELDS),
            *(_plain(getattr(result, name)) for name in _RESULT_FIELDS),
        ]
        for result in sorted(every, key=lambda result: result.case)
    ]
    # Types are the dataclasses' own, so that a field added to them becomes a column by itself.
    case, result = get_type_hints(Case), get_type_hints(CaseResult)
    hints = [*_RUN_COLUMNS.items(), *((name, case[name]) for name in _CASE_FIELDS)]
    hints += ((name, result[name]) for name in _RESULT_FIELDS)
    schema = {name: _data_type(hint) for name, hint in hints}
    return pl.DataFrame(rows, schema=schema, orient="row")


def samples(rows: npt.NDArray[np.void]) -> pl.DataFrame:
    """The columns of SAMPLE_DTYPE, and ``call_ns``: the time of one call, elapsed_ns / k."""
    import polars as pl

    return _columns(rows).with_columns((pl.col("elapsed_ns") / pl.col("k")).alias("call_ns"))


def digests(rows: npt.NDArray[np.void], world: WorldInfo | None) -> pl.DataFrame:
    """The columns of DIGEST_DTYPE, and where each rank ran; null where the record does not say."""
    import polars as pl

    places = [(rank.rank, rank.host, rank.local_rank, rank.device) for rank in world.ranks] if world else []
    schema = {"rank": pl.Int32, "host": pl.String, "local_rank": pl.Int32, "device": pl.String}
    where = pl.DataFrame(places, schema=schema, orient="row")
    return _columns(rows).join(where, on="rank", how="left", maintain_order="left")


def _columns(rows: npt.NDArray[np.void]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame({name: np.ascontiguousarray(rows[name]) for name in rows.dtype.names or ()})


def _data_type(hint: object) -> pl.DataType:
    """The polars type of an annotation; JSON text where no column type fits."""
    import polars as pl

    arguments = get_args(hint)
    if NoneType in arguments:  # X | None
        (inner,) = (argument for argument in arguments if argument is not NoneType)
        return _data_type(inner)
    if get_origin(hint) is tuple and arguments[1:] == (...,):
        return pl.List(_data_type(arguments[0]))
    if is_dataclass(hint):
        return pl.Struct({name: _data_type(inner) for name, inner in get_type_hints(hint).items()})
    for plain, column in ((bool, pl.Boolean()), (int, pl.Int64()), (float, pl.Float64())):
        if isinstance(hint, type) and issubclass(hint, plain):
            return column
    return pl.String()


def _plain(value: object) -> object:
    """A field's value as polars takes it."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return json.dumps(value) if isinstance(value, Mapping) else value


def started_folder(run: str | Path) -> Path:
    """The folder of a run that has a record. Raises UsageError where there is none."""
    folder = find_run(str(run), environ_home())
    if not is_started(folder) and (folder / SERIES_FILE).is_file():
        raise UsageError(
            f"{folder} is a series of setups, and each of its launches is a run",
            hint=f"`busbw compare {folder}` shows it; a launch is one of {folder / LAUNCHES}/*",
        )
    if not is_started(folder):
        raise UsageError(
            f"the run in {folder} never started: it ended before its ranks were connected",
            hint="request/commands.txt there is what was started, log/ranks.log what the ranks said",
        )
    return folder


def cut_files(folder: Path) -> tuple[str, ...]:
    """What is left over behind the whole records of raw files, which a kill in the middle of a write cuts."""
    raw_files = ((SAMPLES_FILE, SAMPLE_DTYPE), (DIGESTS_FILE, DIGEST_DTYPE))
    cuts = [cut_segment(folder, raw, dtype) for raw, dtype in raw_files if (folder / raw).is_file()]
    said = [f"{folder}/{cut}" for cut in cuts if cut]
    lines = folder / RESULTS_FILE
    if lines.is_file() and (left := lines.read_bytes().rpartition(b"\n")[2]):
        said.append(f"{lines} is cut: {len(left)} bytes of a last line are left out")
    return tuple(said)
