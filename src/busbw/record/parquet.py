"""Raw segments to Parquet and back, where polars is installed (``busbw[analysis]``)."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.model.sample import DIGEST_DTYPE, SAMPLE_DTYPE
from busbw.record.folder import SEGMENTS

# Loading polars takes 0.3 s, which is lost time at the prompt where little is saved.
WORTHWHILE_BYTES: Final = 16_000_000


def is_worthwhile(folder: Path) -> bool:
    """Whether a run's raw segments are so large that compaction saves room worth its time."""
    segments = (folder / raw for raw in SEGMENTS)
    return sum(path.stat().st_size for path in segments if path.is_file()) > WORTHWHILE_BYTES


def compact(folder: Path) -> bool:
    """Replace a finished run's raw segments by Parquet. False where polars is missing, or fails as memory or
    space is short: then the raw segments stay, which readers take as well.

    A segment that a kill has cut stays too, for it shows that it was.
    """
    if find_spec("polars") is None:
        return False
    try:
        _compact(folder)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 (a panic of polars is no Exception, and importing it may fail too)
        return False
    return True


def _compact(folder: Path) -> None:
    import polars as pl

    for (raw, parquet), dtype in zip(SEGMENTS.items(), (SAMPLE_DTYPE, DIGEST_DTYPE), strict=True):
        if (folder / raw).is_file() and not cut_segment(folder, raw, dtype):
            rows = np.fromfile(folder / raw, dtype)
            columns = {name: np.ascontiguousarray(rows[name]) for name in dtype.names or ()}
            partial = folder / parquet.with_suffix(".new")
            pl.DataFrame(columns).write_parquet(partial, compression="zstd")
            partial.replace(folder / parquet)
            (folder / raw).unlink()


def cut_segment(folder: Path, raw: Path, dtype: np.dtype[np.void]) -> str:
    """What is left over behind the whole records of a raw segment; empty where nothing is."""
    whole, left_bytes = divmod((folder / raw).stat().st_size, dtype.itemsize)
    if not left_bytes:
        return ""
    return (
        f"{raw} is cut: {whole} whole records are kept, {left_bytes} bytes of another"
        f" (of {dtype.itemsize}) are left out"
    )


def read_rows(path: Path, dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """A Parquet table as records of ``dtype``. Raises UsageError where polars is missing or the file is
    damaged: cut in half, or of another version.
    """
    from busbw.errors import UsageError

    if find_spec("polars") is None:
        raise UsageError(f"{path} needs polars", hint="run in a clone of busbw: pip install '.[analysis]'")
    import polars as pl

    try:
        frame = pl.read_parquet(path)
        rows = np.empty(frame.height, dtype)
        for name in dtype.names or ():
            rows[name] = frame[name].to_numpy()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, TypeError) as error:
        raise UsageError(
            f"{path} cannot be read: {error}",
            hint="it was cut or changed; the results in run.json do not need it, restore it for the samples",
        ) from error
    return rows
