"""Where runs live, what a run folder is called, and which run a name means.

``run.json`` (replaced by rename), ``results.jsonl`` (a line a finished case while the run is under way, then
part of ``run.json``), ``samples/`` (raw segments while running, Parquet
once compacted), ``request/`` (what was launched), ``log/`` (what the ranks printed beside their events).
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from busbw.errors import ExitCode, UsageError

RUN_FILE: Final = "run.json"
RESULTS_FILE: Final = "results.jsonl"
ROUNDS_FILE: Final = "rounds.jsonl"  # of a hunt: a line a round
SAMPLES_FILE: Final = Path("samples") / "samples.bin"
DIGESTS_FILE: Final = Path("samples") / "digests.bin"
SAMPLES_PARQUET: Final = Path("samples") / "samples.parquet"
DIGESTS_PARQUET: Final = Path("samples") / "digests.parquet"
# What stands behind a run beside its samples: NCCL's own topology and graphs (--nccl-topology).
EVIDENCE_FOLDER: Final = "evidence"
NSYS_FOLDER: Final = Path(EVIDENCE_FOLDER) / "nsys"  # reports of Nsight Systems (--profile nsys)
NCCL_FILES: Final = (f"{EVIDENCE_FOLDER}/nccl-topology.xml", f"{EVIDENCE_FOLDER}/nccl-graphs.xml")
REQUEST_FILE: Final = Path("request") / "request.json"
# Of a run on an engine: the job as it was submitted, the proof that a folder is shared with the nodes, and
# the events as they came; that somebody asked for its end, and that nothing of it is left on the engine;
# who follows it (locked for as long), and how it ended in the eyes of whoever did to its end.
JOB_FILE: Final = Path("request") / "job.json"
CANCELLED_FILE: Final = Path("request") / "cancelled"
CLEANED_FILE: Final = Path("request") / "cleaned"
OWNER_FILE: Final = Path("request") / "follower"
WRITER_FILE: Final = Path("request") / "writer"  # rank 0, where it writes the folder itself
ENDED_FILE: Final = Path("request") / "ended.json"
TICKET_FILE: Final = Path("request") / "ticket"
STREAM_FILE: Final = Path("log") / "stream.jsonl"
LOG_FILE: Final = Path("log") / "ranks.log"
# What a command of the user's printed, a line of JSON each: its text, and whether that was standard error.
PRINTED_FILE: Final = Path("log") / "printed.jsonl"
LAUNCHES: Final = "launches"  # a run folder each, where the run is the summary of several launches
LAST: Final = "last"
_STAMP: Final = re.compile(r"\d{8}-\d{6}(?=-)")


def home(environ: Mapping[str, str]) -> Path:
    """$BUSBW_HOME, else busbw/ in the XDG state folder."""
    if chosen := environ.get("BUSBW_HOME"):
        return Path(chosen)
    state = environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "busbw"


def new_run_id(name: str, now: datetime | None = None) -> str:
    """Sorts by time, says what was run, and does not collide: 20261121-181502-all_reduce-3f9a."""
    return f"{_stamp(now or datetime.now(UTC))}-{name}-{secrets.token_hex(2)}"


def create(run_home: Path, run_id: str) -> Path:
    """Make the folder of a new run."""
    folder = run_home / run_id
    try:
        for part in (SAMPLES_FILE, REQUEST_FILE, LOG_FILE):
            (folder / part).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot make the run folder {folder}: {error.strerror}",
            hint="set BUSBW_HOME to a folder that you can write",
        ) from error
    return folder


def run_folders(run_home: Path) -> list[Path]:
    """All runs, newest first, with those that were requested and never started."""
    if not run_home.is_dir():
        return []
    return sorted(filter(_is_run, run_home.iterdir()), key=_age_key, reverse=True)


def launch_folders(folder: Path) -> tuple[Path, ...]:
    """The runs that this one is the summary of, in their order; empty where it is a run of its own."""
    launches = folder / LAUNCHES
    if not launches.is_dir():
        return ()
    return tuple(sorted(filter(is_started, launches.iterdir()), key=lambda path: (len(path.name), path.name)))


def is_started(folder: Path) -> bool:
    """Whether the run came so far that it has a record: rank 0 writes one once it is joined by the others."""
    return (folder / RUN_FILE).is_file()


@dataclass(frozen=True)
class Ended:
    """How a run on an engine ended in the eyes of whoever followed it: ``own_code`` is what a command of the
    user's ended with, negative for a signal, None where it was a run or that is not known.
    """

    exit_code: int
    error: dict[str, Any] | None
    own_code: int | None = None

    @property
    def shell_code(self) -> int:
        """As shells have it: a script sees what its command said, 128 and the number for a signal."""
        if self.exit_code != ExitCode.RANK_FAILED or not self.own_code:
            return self.exit_code
        return self.own_code if self.own_code > 0 else 128 - self.own_code


def write_ended(
    folder: Path, exit_code: int, error: Mapping[str, Any] | None, own_code: int | None = None
) -> None:
    """Keep how a run on an engine ended: see ``Ended``; the error is an event."""
    partial = folder / ENDED_FILE.with_suffix(".new")
    fields = {"exit_code": exit_code, "error": error, "own_code": own_code}
    partial.write_text(json.dumps(fields) + "\n")
    partial.replace(folder / ENDED_FILE)


def read_ended(folder: Path) -> Ended | None:
    """What ``write_ended`` kept; None where nobody followed the run to its end."""
    try:
        fields = json.loads((folder / ENDED_FILE).read_text())
        return Ended(int(fields["exit_code"]), fields["error"], fields.get("own_code"))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_run(folder: Path) -> bool:
    return is_started(folder) or (folder / REQUEST_FILE).is_file()


def _age_key(folder: Path) -> tuple[str, float]:
    """When the run was made, as its name has it, or its record where somebody gave it a name of their own."""
    file = folder / (RUN_FILE if is_started(folder) else REQUEST_FILE)
    named = _STAMP.match(folder.name)
    written = file.stat().st_mtime
    return named.group() if named else (
        _created(file) or _stamp(datetime.fromtimestamp(written, UTC))
    ), written


def _created(file: Path) -> str | None:
    try:
        return _stamp(datetime.fromisoformat(json.loads(file.read_text())["created"]).astimezone(UTC))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y%m%d-%H%M%S")


def find_run(name: str, run_home: Path) -> Path:
    """The run folder that ``name`` means: a path, a run id or the start of one, or ``last``."""
    if _is_run(Path(name)):
        return Path(name)
    runs = run_folders(run_home)
    if name == LAST and runs:
        return runs[0]
    matches = [folder for folder in runs if folder.name.startswith(name)]
    whole = [folder for folder in matches if folder.name == name]
    if len(whole or matches) == 1:
        return (whole or matches)[0]
    if matches:
        raise UsageError(
            f"{name!r} fits {len(matches)} runs", hint="give more of the run's name; `busbw list` has it"
        )
    raise UsageError(f"no run {name!r} in {run_home}", hint="`busbw list` names the runs; a folder works too")


def environ_home() -> Path:
    """home() of this process."""
    return home(os.environ)
