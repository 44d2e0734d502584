"""PBS as an engine: a job script with mpiexec or aprun, submitted by qsub. Not run on a real PBS.

A shared run folder carries the output as it comes; without one, PBS itself copies it to the run folder when
the job has ended.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from busbw.errors import SiteError, UsageError
from busbw.launch import batch, settle
from busbw.launch.base import Command
from busbw.launch.batch import Follower, Shape, SharedFiles, Text, shell
from busbw.launch.command import HOSTS, entered, path_apart, sourced
from busbw.launch.engine import (
    Facts,
    Handle,
    Item,
    Job,
    JobRequest,
    JobState,
    LaunchReader,
    Look,
    Phase,
)
from busbw.launch.launcher_words import describe
from busbw.launch.scheduler import NoAnswer, call
from busbw.launch.variables import launched

if TYPE_CHECKING:
    from busbw.plan.flags.launch import LaunchSettings

WAIT_SECONDS: float | None = None

SCRIPT: Final = "job.pbs"
_UNUSED: Final = {
    **dict.fromkeys(("hosts", "hostfile", "namespace", "context", "patch", "bring", "image", "mounts"), ""),
    **dict.fromkeys(("job_id", "segment", "srun_args", "sbatch_args"), ""),
    # Its launchers take the nodes in PBS's own order.
    "topology": "inside a PBS job: --on hosts --hostfile $PBS_NODEFILE --topology FILE",
}
# --set KEY=VALUE: what a site's PBS needs besides.
_KEYS: Final[Mapping[str, str]] = {
    "launcher": "mpiexec",  # or aprun
    "form": "select",  # -l select=... (PBS Pro, OpenPBS), or nodes: -l nodes=N:ppn=P (older, Torque)
    "depth": "",  # cores of a rank: it is bound to them
    "filesystems": "",
    "ncpus": "",
    "gpu": "",
}
_LOOK_SECONDS: Final = 2.0
# PBS copies a job's output home after its end.
_TRAIL_SECONDS: Final = 20.0
_FIELD: Final = re.compile(r"^\s+(job_state|comment|Exit_status|exit_status) = (.*)$", re.MULTILINE)
_IS_OVER: Final = re.compile(r"unknown job|has finished", re.IGNORECASE)
_PLAIN: Final = re.compile(r"[A-Za-z0-9_@%+=:,./-]+\Z")
# https://help.altair.com, PBS Reference Guide, "Job States"; Torque has C for a job that has ended.
_PENDING: Final = frozenset("QHTWM")
_RUNNING: Final = frozenset("RESUB")

_TOP: Final = """\
run_folder={folder}
job=${{PBS_JOBID%%.*}}
cd "$PBS_O_WORKDIR" 2>/dev/null || :
log=
if {is_shared}; then
  log=$run_folder/log
  exec >"$log/pbs-$job.out" 2>"$log/pbs-$job.err"
fi
"""
_ROOT: Final = """\
# Where ranks without MPI meet.
BUSBW_ROOT=$(head -n 1 "$PBS_NODEFILE") && export BUSBW_ROOT
"""


# For a command of the user's: its nodes, each with as many slots as it has lines.
HOST_LINES: Final = f"""\
{HOSTS}=$(awk '!count[$1]++ {{order[++n] = $1}}
  END {{for (i = 1; i <= n; i++) print order[i] ":" count[order[i]]}}' "$PBS_NODEFILE" | paste -sd, -)
"""


def inquire(launch: LaunchSettings, command: tuple[str, ...] = (), *, dry: bool = False) -> Facts:
    """See Engine. Nothing is asked: a script can be written anywhere."""
    check(launch)
    return {"python": sys.executable, "setup": settle.read_setup(launch.setup_script)}


def check(launch: LaunchSettings) -> None:
    """See Engine."""
    settle.refuse_unused(launch, "PBS", _UNUSED)
    read_values(launch.set)
    settle.split_words("--mpirun-args", launch.mpirun_args)
    settle.refuse_unlike(launch.time_limit, settle.PBS_LIMIT, settle.PBS_LIMIT_HINT)


def request(job: Job, facts: Facts) -> JobRequest:
    """See Engine."""
    return _submitted(job, [_launch(job, facts)])


def series_request(series: Job, loop: tuple[str, ...], facts: Facts) -> JobRequest:
    """See SeriesEngine."""
    own = shlex.quote(series.launch.python or facts.get("python", "python3"))
    return _submitted(series, [batch.loop([own], loop)])


def start(job: Job, series: Job, facts: Facts) -> Command:
    """See SeriesEngine. Of a larger job the launchers take the first nodes."""
    return Command(("bash", "-c", _launch(job, facts)))


def sweep(series: Job, words: tuple[str, ...], facts: Facts) -> tuple[str, ...]:
    """See SeriesEngine. By the launcher of the job's ranks."""
    nodes = str(_shape(series).nodes)
    if read_values(series.launch.set)["launcher"] == "aprun":
        return ("aprun", "-q", "-n", nodes, "-N", "1", *words)
    if series.launch.mpi == "openmpi":
        mpirun = 'exec mpirun -n "$0" --map-by ppr:1:node --hostfile "$PBS_NODEFILE" "$@"'
        return ("sh", "-c", mpirun, nodes, *words)
    return ("mpiexec", "-n", nodes, "-ppn", "1", *words)


def _shape(job: Job) -> Shape:
    """As -N, --ranks and --ranks-per-node say; else a rank a GPU, or one. Raises UsageError."""
    nodes = int(job.launch.nodes or 0)
    if nodes < 1:
        raise UsageError("no number of nodes given", hint="give --nodes, as in -N 2")
    settle.refuse_other_count(job.ranks, job.launch.ranks_per_node, nodes)
    if job.ranks is not None:
        settle.refuse_uneven(job.ranks, nodes)
        return Shape(nodes, job.ranks)
    per_node = job.launch.ranks_per_node or int(read_values(job.launch.set)["gpu"] or 0) or 1
    return Shape(nodes, nodes * per_node)


def _submitted(job: Job, parts: Sequence[str]) -> JobRequest:
    """The job whose script has these ``parts`` below its beginning."""
    shape = _shape(job)
    lines, options = _directives(job, read_values(job.launch.set), shape)
    top = _TOP.format(folder=shlex.quote(job.folder), is_shared=batch.is_shared(job)) + batch.finish() + _ROOT
    text = "\n".join(("\n".join(("#!/bin/bash", *lines)) + "\n", top, *parts))
    command = Command(("qsub", *options, f"{job.folder}/request/{SCRIPT}"))
    return JobRequest("pbs", job.name, shape.ranks, shape.nodes, {SCRIPT: text}, (command,))


def read_values(given: tuple[str, ...]) -> dict[str, str]:
    """--set KEY=VALUE over the defaults. Raises UsageError."""
    values = {**_KEYS, **dict(settle.set_words(given, _KEYS, "PBS"))}
    for key, allowed in (("launcher", ("mpiexec", "aprun")), ("form", ("select", "nodes"))):
        if values[key] not in allowed:
            raise UsageError(f"--set {key}={values[key]} is unknown", hint=f"use {' or '.join(allowed)}")
    for key in ("depth", "ncpus", "gpu"):
        if values[key]:
            settle.set_count(key, values[key])
    return values


def _without_mpi(job: Job) -> Job:
    """With --mpi none a word makes the ranks meet over busbw's own channel: mpiexec and aprun start them all
    the same, and by its variables they would take it for an MPI. A user's command gets no such word.
    """
    if job.launch.mpi != "none":
        return job
    settle.refuse_mpi(job.world, job.backend)
    if job.world != "auto" or not job.work.is_busbw:
        return job
    return replace(job, work=replace(job.work, words=(*job.work.words, "--world=nccl")))


def _directives(job: Job, values: Mapping[str, str], shape: Shape) -> tuple[list[str], list[str]]:
    """#PBS lines, and the qsub words that a line cannot hold as they are."""
    launch = job.launch
    if values["form"] == "nodes":
        resources = [f"nodes={shape.nodes}:ppn={shape.per_node}"]
    else:
        chunk = [str(shape.nodes), f"mpiprocs={shape.per_node}"]
        chunk += [f"ncpus={values['ncpus']}"] if values["ncpus"] else []
        chunk += [f"ngpus={values['gpu']}"] if values["gpu"] else []
        place = "scatter:excl" if launch.exclusive else "scatter"
        resources = [f"select={':'.join(chunk)}", f"place={place}"]
    resources += [f"walltime={launch.time_limit}"] if launch.time_limit else []
    resources += [f"filesystems={values['filesystems']}"] if values["filesystems"] else []
    digits = job.name.rpartition("-")[2]
    pairs = [
        ("-N", f"busbw-{digits}"[:15]),  # as many characters as older versions take
        *(("-l", resource) for resource in resources),
        ("-q", launch.partition),
        ("-A", launch.account),
        ("-r", "n"),
    ]
    lines, options = [], []
    for flag, value in pairs:
        if value and _PLAIN.match(value):
            lines.append(f"#PBS {flag} {value}")
        elif value:
            options += [flag, value]
    log = f"{job.folder}/log"
    return lines, [*options, "-o", f"{log}/pbs.out", "-e", f"{log}/pbs.err"]


def _launch(job: Job, facts: Facts) -> str:
    """The part of a job script that starts the ranks. aprun and MPICH's mpiexec (PALS, hydra) hand on the
    whole environment, Open MPI's what it is told.
    """
    job = _without_mpi(job)
    values, shape = read_values(job.launch.set), _shape(job)
    depth, (path, environ) = values["depth"], path_apart(job.environ)
    ranks, per_node = str(shape.ranks), str(shape.per_node)
    if values["launcher"] == "aprun":
        words = ["aprun", "-n", ranks, "-N", per_node]
        words += ["--cc", "depth", "-d", depth] if depth else []
    elif job.launch.mpi == "openmpi":
        ours = ("BUSBW_TOKEN", "BUSBW_ROOT") if job.work.is_busbw else (HOSTS, "MASTER_ADDR", "MASTER_PORT")
        names = [*environ, *ours]
        words = ["mpirun", "-n", ranks, "--map-by", f"ppr:{per_node}:node"]
        words += [word for name in names for word in ("-x", name)]
        words += ["--hostfile", Text('"$PBS_NODEFILE"')]
    else:
        words = ["mpiexec", "-n", ranks, "-ppn", per_node]
        words += ["--cpu-bind", "depth", "--depth", depth] if depth else []
    words += settle.split_words("--mpirun-args", job.launch.mpirun_args)
    argv = (*path, *job.argv(job.launch.python or facts.get("python", "python3")))
    argv = argv if job.work.is_busbw else entered(argv)
    if setup := facts.get("setup", ""):
        argv = ("bash", "-c", _sourcing(setup), "busbw-rank", *argv)
    whole = f"{shell(words)} \\\n  {shell(argv)}"
    first = batch.TOKEN if job.work.is_busbw else HOST_LINES + batch.MEET
    return first + "\n" + (launched(whole, environ) if environ else whole + "\n")


def _sourcing(setup: str) -> str:
    """The script is a quoted word, not a here-document: no line of it can be the document's end."""
    return sourced(f"8<<<{shlex.quote(setup)}", "$(hostname)")


def submit(request: JobRequest, folder: Path) -> Handle:
    """See Engine."""
    (command,) = request.commands
    try:
        answer = call(*command.argv, engine="PBS").strip()
    except NoAnswer as error:
        error.hint = "run `qstat -u $USER` to see whether PBS took the job, `qdel` to end it"
        raise
    number = answer.splitlines()[-1].strip() if answer else ""
    if not re.match(r"\d", number):
        raise SiteError(f"qsub gave no job number: {answer[:200]!r}", hint="look at `qstat -u $USER`")
    return Handle("pbs", number, request.name)


def follow(handle: Handle, folder: Path) -> Iterator[Item]:
    """See Engine. The script writes to log/ where its node sees the run folder; else PBS brings its files."""
    places = (f"pbs-{handle.id.split('.')[0]}", "pbs")
    files = SharedFiles(*(folder / "log" / f"{name}.{kind}" for name in places for kind in ("out", "err")))
    look = Look(lambda: state(handle), handle.id, first_s=_LOOK_SECONDS, last_s=_LOOK_SECONDS)
    return _Follower(look, LaunchReader(), files, _TRAIL_SECONDS).items()


class _Follower(Follower):
    def _end(self, state: JobState) -> JobState:
        code = self._codes.get(False, state.code)
        why = state.why or (describe(code) if code else "")
        return replace(state, why=why, code=code)


def cancel(handle: Handle, *, now: bool) -> None:
    """See Engine. Raises SiteError where PBS does not take it."""
    if _asked_of(handle):
        call("qdel", *(("-W", "force") if now else ()), handle.id, engine="PBS", over=_IS_OVER)


def state(handle: Handle) -> JobState:
    """See Engine."""
    text = _asked_of(handle)
    return read_state(text) if text else JobState(Phase.ENDED, why="PBS no longer knows the job")


def _asked_of(handle: Handle) -> str:
    """What PBS says of a job; empty where it has forgotten it."""
    try:  # also of those that have ended; Torque has no -x
        return call("qstat", "-x", "-f", handle.id, engine="PBS")
    except NoAnswer:
        raise
    except SiteError:
        return call("qstat", "-f", handle.id, engine="PBS", over=_IS_OVER)


def read_state(text: str) -> JobState:
    """The state in the answer of `qstat -f`: long values go on in lines that begin with a tab."""
    fields: dict[str, str] = dict(_FIELD.findall(text.replace("\n\t", "")))
    letter, comment = fields.get("job_state", "")[:1], fields.get("comment", "")
    if letter in _PENDING:
        hopeless = letter == "H" or "can never run" in comment.lower()
        hint = "release it (qrls), then attach" if letter == "H" else "ask for less, or another --partition"
        return JobState(Phase.PENDING, why=comment, hopeless=hopeless, hint=hint if hopeless else "")
    if letter in _RUNNING:
        return JobState(Phase.RUNNING)
    status = fields.get("Exit_status", fields.get("exit_status", "")).strip()
    if not status.lstrip("-").isdecimal():
        return JobState(Phase.ENDED)
    code = int(status)
    return JobState(Phase.ENDED, code=256 - code if code > 256 else code)  # a signal: 256 and its number
