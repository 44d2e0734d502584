"""Files of samples that a run folder should have and has not: removed, or never brought home."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from busbw.model.record import RunStatus
from busbw.record.folder import SEGMENTS, STREAM_FILE, launch_folders

if TYPE_CHECKING:
    from busbw.model.record import RunRecord

# Which files were too large to come home with the record: a line each.
LEFT_OUT_NOTE: Final = Path("samples") / "left-out.txt"


def note_left_out(folder: Path, names: tuple[str, ...]) -> None:
    """Keep which files stayed with the job, so that a reader does not take them for lost."""
    path = folder / LEFT_OUT_NOTE
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{name}\n" for name in names))


def is_there(folder: Path, raw: Path) -> bool:
    """Whether the folder has the file ``raw``, as it was written or as Parquet."""
    return (folder / raw).is_file() or (folder / SEGMENTS[raw]).is_file()


def absent_files(folder: Path, record: RunRecord) -> tuple[str, ...]:
    """A sentence for each file that the results count on and that is not there.

    None for what never had samples of its own (imported logs, a soak, the summary of several launches, a run
    that was ended before it had written them), nor for what is known to have stayed with its job.
    """
    counted = sum(1 for result in record.results if result.samples)
    was_ended = record.status in (RunStatus.INTERRUPTED, RunStatus.FAILED)
    if not counted or was_ended or record.soak or record.source is not None or launch_folders(folder):
        return ()
    try:
        left_out = (folder / LEFT_OUT_NOTE).read_text().splitlines()
    except OSError:
        left_out = []
    # The record of a job whose folder its ranks do not see comes last, after the results.
    why = " (removed, or never brought home from its job)" if (folder / STREAM_FILE).is_file() else ""
    return tuple(
        f"{folder}/{raw} is missing, and {SEGMENTS[raw].name} too{why}: {counted}"
        f" {'case was' if counted == 1 else 'cases were'} measured with samples"
        for raw in SEGMENTS
        if not is_there(folder, raw) and str(raw) not in left_out
    )
