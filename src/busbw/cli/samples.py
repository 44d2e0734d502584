"""Samples of a run for a command that shows or judges them: what of them is missing is said on stderr."""

from __future__ import annotations

import sys
from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Final

from busbw.analysis.lacking import lacking
from busbw.analysis.run import cut_files
from busbw.record.read import read_digests, read_samples

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from busbw.model.record import RunRecord

    Rows = npt.NDArray[np.void]

_MOST_LINES: Final = 8


def samples_and_digests(
    folder: Path, record: RunRecord, *, of: Container[int] | None = None, named: bool = True
) -> tuple[Rows, Rows]:
    """SAMPLE_DTYPE and DIGEST_DTYPE rows of the whole run. A warning for each file that was cut, and each
    case that lost samples; of those in ``of`` alone, and only where some are left, if the caller speaks of
    the others. With the run's name where it is not the only one.
    """
    samples, digests = read_samples(folder), read_digests(folder)
    for text in cut_files(folder):
        print(f"warning: {text}", file=sys.stderr)
    short = [
        each for each in lacking(record, samples, digests) if of is None or (each.case in of and each.found)
    ]
    start = f"warning: {folder.name}: " if named else "warning: "
    for each in short[:_MOST_LINES]:
        print(f"{start}{each}", file=sys.stderr)
    if len(short) > _MOST_LINES:
        print(f"{start}and of {len(short) - _MOST_LINES} cases more", file=sys.stderr)
    return samples, digests
