"""Where runs live, what a run folder is called, and which run a name means.

``run.json`` (replaced by rename), ``results.jsonl`` (a line a finished case while the run is under way, then
part of ``run.json``), ``samples/`` (raw segments, large ones Parquet
once compacted), ``request/`` (what was launched), ``log/`` (what the ranks printed beside their events).
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import secrets
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from busbw.errors import ExitCode, SiteError, UnknownWord, UsageError, nearest
from busbw.redact import redact_all

RUN_FILE: Final = "run.json"
RESULTS_FILE: Final = "results.jsonl"
ROUNDS_FILE: Final = "rounds.jsonl"  # of a hunt: a line a round
SAMPLES_FILE: Final = Path("samples") / "samples.bin"
DIGESTS_FILE: Final = Path("samples") / "digests.bin"
SAMPLES_PARQUET: Final = Path("samples") / "samples.parquet"
DIGESTS_PARQUET: Final = Path("samples") / "digests.parquet"
SEGMENTS: Final = {SAMPLES_FILE: SAMPLES_PARQUET, DIGESTS_FILE: DIGESTS_PARQUET}
# What stands behind a run beside its samples: NCCL's own topology and graphs (--nccl-topology).
EVIDENCE_FOLDER: Final = "evidence"
NSYS_FOLDER: Final = Path(EVIDENCE_FOLDER) / "nsys"  # reports of Nsight Systems (--profile nsys)
NCCL_FILES: Final = (f"{EVIDENCE_FOLDER}/nccl-topology.xml", f"{EVIDENCE_FOLDER}/nccl-graphs.xml")
REQUEST_FILE: Final = Path("request") / "request.json"
# Of a run on an engine: the job as it was submitted, the proof that a folder is shared with the nodes, and
# the events as they came; that somebody asked for its end, and that nothing of it is left on the engine;
# who follows it (locked for as long), and how it ended in the eyes of the one that followed it to its end.
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
TUNING_FILE: Final = "tuning.json"  # of a race of arms: what it came to
SERIES_FILE: Final = "setups.json"  # of a series of setups, whose launches are runs in its folder
LAST: Final = "last"
_STAMP_FORM: Final = "%Y%m%d-%H%M%S"
_STAMP: Final = re.compile(r"\d{8}-\d{6}(?=-)")
ID: Final = re.compile(r"\d{8}-\d{6}-(.+)-[0-9a-z]{4}")
_NAMED: Final = 3  # runs that a refusal names


def home(environ: Mapping[str, str]) -> Path:
    """$BUSBW_HOME, else busbw/ in the XDG state folder. Raises SiteError where the user has no home."""
    if chosen := environ.get("BUSBW_HOME"):
        return Path(chosen)
    return user_folder(environ, "XDG_STATE_HOME", ".local/state") / "busbw"


def user_folder(environ: Mapping[str, str], variable: str, below: str) -> Path:
    """The folder that ``variable`` names, else ``below`` in the user's home: HOME, or where that says nothing
    the one in the user database. Raises SiteError where neither has one.
    """
    if chosen := environ.get(variable):
        return Path(chosen)
    if own := environ.get("HOME"):
        return Path(own) / below
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir) / below
    except KeyError:
        raise SiteError(
            f"user {os.getuid()} has no home folder, and HOME is not set",
            hint=f"set HOME, {variable}, or BUSBW_HOME for runs, to a folder that you can write",
        ) from None


def new_run_id(name: str, now: datetime | None = None) -> str:
    """Sorts by time, says what was run, and does not collide: 20261121-181502-all_reduce-3f9a."""
    return f"{(now or datetime.now(UTC)).strftime(_STAMP_FORM)}-{name}-{secrets.token_hex(2)}"


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


def run_folders(run_home: Path, but: Collection[str] = ()) -> list[Path]:
    """All runs and series of setups, newest first, with those that were requested and never started; ``but``
    those of these names, into which nobody looks.
    """
    if not run_home.is_dir():
        return []
    own = (folder for folder in run_home.iterdir() if folder.name not in but)
    return sorted(filter(_is_run, own), key=_age_key, reverse=True)


def launch_folders(folder: Path) -> tuple[Path, ...]:
    """The runs that this one is the summary of, in their order; empty where it is a run of its own."""
    launches = folder / LAUNCHES
    if not launches.is_dir():
        return ()
    return tuple(sorted(filter(is_started, launches.iterdir()), key=lambda path: (len(path.name), path.name)))


def is_started(folder: Path) -> bool:
    """Whether the run came so far that it has a record: rank 0 writes one once it is joined by the others."""
    return (folder / RUN_FILE).is_file()


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """An OSError from inside, as of a full disk, names the file: a write to an open file does not."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def replace_text(path: Path, pieces: Iterable[str]) -> None:
    """Write a file so that no reader sees half of it: beside it, and then in its place. Raises OSError with
    the file's name, and leaves nothing beside it then.
    """
    partial = path.with_name(f".{path.name}.new")
    try:
        with naming(path), partial.open("w", encoding="utf-8", errors="surrogateescape") as file:
            file.writelines(pieces)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


@dataclass(frozen=True)
class Ended:
    """How a run on an engine ended in the eyes of the process that followed it: ``own_code`` is what a
    command of the user's ended with, negative for a signal, None where it was a run or that is not known.
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
    fields = {"exit_code": exit_code, "error": redact_all(error), "own_code": own_code}
    replace_text(folder / ENDED_FILE, (json.dumps(fields), "\n"))


def read_ended(folder: Path) -> Ended | None:
    """What ``write_ended`` kept; None where nobody followed the run to its end."""
    try:
        fields = json.loads((folder / ENDED_FILE).read_text())
        return Ended(int(fields["exit_code"]), fields["error"], fields.get("own_code"))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_run(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (RUN_FILE, REQUEST_FILE, JOB_FILE, SERIES_FILE))


def _age_key(folder: Path) -> tuple[str, float]:
    """When the run was made, as its name has it, or its record where somebody gave it a name of their own."""
    files = (folder / name for name in (RUN_FILE, REQUEST_FILE, JOB_FILE, SERIES_FILE))
    file = next(path for path in files if path.is_file())
    written = file.stat().st_mtime
    if named := _STAMP.match(folder.name):
        return named.group(), written
    when = datetime.fromtimestamp(written, UTC)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        when = datetime.fromisoformat(json.loads(file.read_text())["created"]).astimezone(UTC)
    return when.strftime(_STAMP_FORM), written


def label_of(folder: Path) -> str:
    """What the run was called: its id between the time and the last four letters, else all of it."""
    found = ID.fullmatch(folder.name)
    return found.group(1) if found else folder.name


def read_settings(folder: Path) -> dict[str, Any]:
    """The settings of a run as its record or its request has them; empty where neither can be read."""
    for name in (RUN_FILE, REQUEST_FILE):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return dict(json.loads((folder / name).read_text())["settings"])
    return {}


def is_of_measuring(folder: Path) -> bool:
    """Whether the run was to measure: no preflight, no series, and no command of `busbw exec`."""
    if not is_started(folder) and not (folder / REQUEST_FILE).is_file():
        return False
    settings = read_settings(folder)
    return not settings.get("stop_after") and ("command" not in settings or "deliver" in settings)


def made(folder: Path) -> datetime:
    """When the run was made."""
    return datetime.strptime(_age_key(folder)[0], _STAMP_FORM).replace(tzinfo=UTC)


def is_job(folder: Path) -> bool:
    """Whether it was submitted to an engine."""
    return (folder / JOB_FILE).is_file()


def _say(text: str) -> None:
    sys.stderr.write(f"note: {text}\n")


_ALIKE: Final = 0.8  # how alike a mistyped id is: ids of one day share half of their letters


def find_run(
    name: str,
    run_home: Path,
    *,
    last: Callable[[Path], bool] = is_of_measuring,
    say: Callable[[str], None] = _say,
) -> Path:
    """The run or series that ``name`` means: its folder, its id or the start of one, the name that it was
    given (of several the newest, which is said), or ``last``: the newest for which ``last`` holds, if any.
    Raises UsageError.
    """
    if _is_run(Path(name)):
        return Path(name)
    runs = run_folders(run_home)
    if name == LAST and runs:
        return next(filter(last, runs), runs[0])
    found = _meant(name, runs)
    labels = dict.fromkeys(map(label_of, found))
    if len(found) == 1:
        return found[0]
    if len(labels) == 1 and next(iter(labels)).startswith(name):
        say(f"{len(found)} runs are named {label_of(found[0])}; this is the newest, {found[0].name}")
        return found[0]
    if found:
        names = ", ".join(folder.name for folder in found[:_NAMED]) + (", ..." if len(found) > _NAMED else "")
        raise UsageError(f"{name!r} fits {len(found)} runs", hint=f"give more of the name: {names}")
    if name == LAST:
        raise UsageError(
            f"no run {name!r}: {run_home} has none yet", hint="measure one: `busbw run all_reduce`"
        )
    known = (LAST, *dict.fromkeys(map(label_of, runs)))
    likely = nearest(name, known) or nearest(name, (folder.name for folder in runs), _ALIKE)
    what, hint = f"no run {name!r} in {run_home}", "`busbw list` names the runs; a folder works too"
    if Path(name).is_file():
        likely, hint = "", f"`busbw import {shlex.quote(name)}` reads a log as a run"
    elif "." in name or "/" in name:
        what, hint = (
            f"there is no file {name}, and no run of that name",
            "check the path; `busbw list` names the runs",
        )
    raise UnknownWord(what, name, (likely,) if likely else (), hint=hint)


def _meant(name: str, runs: list[Path]) -> list[Path]:
    """The runs that the name fits, by the first of these that fits any; newest first."""
    ways: tuple[Callable[[Path], bool], ...] = (
        lambda folder: folder.name == name,
        lambda folder: label_of(folder) == name,
        lambda folder: folder.name.startswith(name),
        lambda folder: label_of(folder).startswith(name),
    )
    return next((found for way in ways if (found := list(filter(way, runs)))), [])


def environ_home() -> Path:
    """home() of this process."""
    return home(os.environ)
