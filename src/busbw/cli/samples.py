"""Samples of a run for a command that shows or judges them: what of them is missing is said on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from busbw.errors import UsageError
from busbw.judge.run import cut_files
from busbw.judge.samples import missing_samples, without_result
from busbw.model.record import RunStatus
from busbw.record.absent import absent_files, is_there
from busbw.record.folder import DIGESTS_FILE, SAMPLES_FILE
from busbw.record.owner import is_abandoned
from busbw.record.read import read_digests, read_samples
from busbw.units import first_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from busbw.model.record import RunRecord

    Rows = npt.NDArray[np.void]

_MOST_CASES: Final = 8


def samples_and_digests(folder: Path, record: RunRecord, *, named: bool = True) -> tuple[Rows, Rows]:
    """SAMPLE_DTYPE and DIGEST_DTYPE rows of the whole run. A warning for each file that was cut or is gone,
    and for cases that lost samples; with the run's name where it is not the only one.
    """
    _say_files(folder, record)
    samples, digests = read_samples(folder), read_digests(folder)
    start = f"warning: {folder.name}: " if named else "warning: "
    for text in _missing(folder, record, samples, digests):
        print(f"{start}{text}", file=sys.stderr)
    return samples, digests


def say_damage(folder: Path, record: RunRecord) -> None:
    """The same warnings, for a command that shows results and needs no samples: what cannot be read of them
    is a warning as well, unless it is that polars is not installed.
    """
    is_raw = all((folder / raw).is_file() for raw in (SAMPLES_FILE, DIGESTS_FILE))
    if find_spec("polars") is None and not is_raw:
        _say_files(folder, record)
        return
    try:
        samples_and_digests(folder, record, named=False)
    except UsageError as error:
        print(f"warning: {error.message}", file=sys.stderr)


def _say_files(folder: Path, record: RunRecord) -> None:
    if record.status is RunStatus.RUNNING and is_abandoned(folder):
        print(f"warning: {folder.name} was killed, so its record has no end", file=sys.stderr)
    for text in (*cut_files(folder), *absent_files(folder, record)):
        print(f"warning: {text}", file=sys.stderr)


def _missing(folder: Path, record: RunRecord, samples: Rows, digests: Rows) -> Iterator[str]:
    """What results and samples have of each other, and one of them has not; the results that lack first."""
    if not is_there(folder, SAMPLES_FILE):
        return
    # Of a run that goes on, samples are read after the results, and are ahead of them.
    has_ended = record.status is not RunStatus.RUNNING or is_abandoned(folder)
    if lost := without_result(record, samples) if has_ended else ():
        yield f"{len(lost)} cases have samples but no result ({first_of(map(str, lost), _MOST_CASES)})"
    if short := missing_samples(record, samples, digests):
        yield first_of(map(str, short), _MOST_CASES, "; ")
