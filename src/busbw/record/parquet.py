"""Raw segments to Parquet and back, where polars is installed (``busbw[analysis]``)."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from busbw.model.sample import DIGEST_DTYPE, SAMPLE_DTYPE
from busbw.record.folder import DIGESTS_FILE, DIGESTS_PARQUET, SAMPLES_FILE, SAMPLES_PARQUET


def compact(folder: Path) -> bool:
    """Replace a finished run's raw segments by Parquet. False, with nothing done, where polars is missing."""
    if find_spec("polars") is None:
        return False
    import polars as pl

    for raw, parquet, dtype in (
        (SAMPLES_FILE, SAMPLES_PARQUET, SAMPLE_DTYPE),
        (DIGESTS_FILE, DIGESTS_PARQUET, DIGEST_DTYPE),
    ):
        if (folder / raw).is_file():
            rows = np.fromfile(folder / raw, dtype)
            columns = {name: np.ascontiguousarray(rows[name]) for name in dtype.names or ()}
            partial = folder / parquet.with_suffix(".new")
            pl.DataFrame(columns).write_parquet(partial, compression="zstd")
            partial.replace(folder / parquet)
            (folder / raw).unlink()
    return True


def read_rows(path: Path, dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """A Parquet table as records of ``dtype``. Raises UsageError where polars is missing."""
    from busbw.errors import UsageError

    if find_spec("polars") is None:
        raise UsageError(f"{path} needs polars", hint="pip install 'busbw[analysis]'")
    import polars as pl

    frame = pl.read_parquet(path)
    rows = np.empty(frame.height, dtype)
    for name in dtype.names or ():
        rows[name] = frame[name].to_numpy()
    return rows
