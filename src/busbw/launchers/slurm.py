"""Slurm as an engine: a job of its own (sbatch), or a step in an allocation that is there (``--job-id``).

The job script (``slurm_script``) starts the ranks by srun, which carries their output; where the run folder
is not shared with the nodes, a step on the job's first node reads it there (``slurm_output``).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from busbw.errors import SiteError, UsageError
from busbw.launchers import slurm_bring, slurm_place, topology_slurm
from busbw.launchers import slurm_commands as commands
from busbw.launchers.base import Command
from busbw.launchers.engine import (
    ASKS_FOLLOWER,
    Handle,
    Item,
    Job,
    JobRequest,
    JobState,
    Phase,
    Unanswered,
)
from busbw.launchers.rank_counts import refuse_other_count
from busbw.launchers.slurm_follow import Follower
from busbw.launchers.slurm_output import split_by_node
from busbw.launchers.slurm_script import render, shape, smaller_segment, unknown_mpi
from busbw.launchers.slurm_state import Reading, job_state
from busbw.launchers.slurm_words import own_words, refuse_unbuffered, split_words, value_of
from busbw.launchers.time_limit import SLURM, SLURM_HINT, refuse_unlike
from busbw.launchers.topology import everything
from busbw.launchers.topology_files import read_texts, topology_of
from busbw.settings.flag import flag_of
from busbw.settings.launch import OF_NEW_JOB

if TYPE_CHECKING:
    from busbw.settings.launch import LaunchSettings

# Queues can be long; reasons that waiting does not end are told at once.
WAIT_SECONDS: float | None = None

SCRIPT: Final = "job.sbatch"
# Linux takes no longer variable (MAX_ARG_STRLEN), and the script is handed to the ranks in one.
_MOST_SETUP_BYTES: Final = 100_000
_SHARED: Final = ("SBATCH_EXCLUSIVE",)
_LEAVE_OUT: Final = "leave it out, or --job-id"
# With --job-id: what to do instead of asking for a job.
_IN_JOB: Final[Mapping[str, str]] = {
    **dict.fromkeys(OF_NEW_JOB, _LEAVE_OUT),
    "time_limit": "leave it out; busbw compare has --launch-timeout for a launch",
    "sbatch_args": "leave it out, or --job-id; --srun-args has words for a step",
    "segment": "leave it out, or --job-id; --srun-args '--nodelist=...' chooses nodes of the allocation",
}
_OTHER_ENGINES: Final = ("hosts", "hostfile", "mpirun_args", "namespace", "context", "set")


def inquire(launch: LaunchSettings, command: tuple[str, ...] = ()) -> Mapping[str, str]:
    """See Engine. Facts: python, family (of the MPI that the ranks would load), mpi (what srun offers), gpus
    (on a node), partition, account, user_id, setup (the script's text), job_nodes (of the allocation),
    topology (its texts).
    """
    from busbw.probes.program import command_family, python_family

    check(launch)
    if command:
        refuse_unbuffered(launch.srun_args)
    facts = {"python": sys.executable, "user_id": str(os.getuid()), "setup": _read_setup(launch)}
    facts |= read_texts(launch)
    facts |= _place(launch)
    facts["family"] = ""  # what an image has is not known here
    if not launch.image:
        facts["family"] = command_family(command) if command else python_family(launch.python)
    return facts


def check(launch: LaunchSettings) -> None:
    """See Engine."""
    for name in launch.given():
        if name in _OTHER_ENGINES:
            flag = flag_of(name)
            raise UsageError(
                f"{flag} means nothing on Slurm", hint="leave it out; --sbatch-args and --srun-args do"
            )
    own_words("--sbatch-args", launch.sbatch_args)
    own_words("--srun-args", launch.srun_args)
    refuse_unlike(launch.time_limit, SLURM, SLURM_HINT)


def _read_setup(launch: LaunchSettings) -> str:
    if launch.setup_script is None:
        return ""
    try:
        text = launch.setup_script.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read --setup-script: {error}", hint="name a shell script") from error
    if len(text.encode()) > _MOST_SETUP_BYTES:
        raise UsageError(
            f"--setup-script {launch.setup_script} is longer than {_MOST_SETUP_BYTES:,} bytes",
            hint="let it source a longer one that the nodes have",
        )
    return text or ":"


def _offered_mpi() -> list[str]:
    """MPI plugins of srun: one a line, below a heading, with the versions of pmix on a line of their own."""
    done = commands.ask(("srun", "--mpi=list"))
    words = [line.removeprefix("srun:").strip() for line in (done.stdout + "\n" + done.stderr).splitlines()]
    return [word for word in words if word and " " not in word]


def _place(launch: LaunchSettings) -> Mapping[str, str]:
    """Facts of the partition, or of the allocation; or why Slurm cannot be asked: a dry run goes on then, see
    submit.
    """
    if launch.job_id:
        return _place_in_job(launch)
    said = slurm_place.chosen(launch, os.environ)
    try:
        return {**said, "mpi": " ".join(_offered_mpi()), **slurm_place.asked(said["partition"])}
    except SiteError as error:
        return {**said, "gpus": "0", "unasked": error.message, "unasked_hint": error.hint}


def _place_in_job(launch: LaunchSettings) -> Mapping[str, str]:
    for name in launch.given():
        if name in OF_NEW_JOB:
            flag = "--shared" if name == "exclusive" else flag_of(name)
            raise UsageError(f"{flag} is of a new job, and job {launch.job_id} is there", hint=_IN_JOB[name])
    reading = commands.look(launch.job_id)
    if job_state(reading).phase is not Phase.RUNNING:
        raise UsageError(
            f"job {launch.job_id} is not running ({reading.state.lower() or 'unknown to Slurm'})",
            hint="give --job-id of an allocation that is; `squeue --me` lists yours",
        )
    gpus = slurm_place.allocated_gpus(launch.job_id, reading.node_count)
    offered = " ".join(_offered_mpi())
    return {"mpi": offered, "job_nodes": str(reading.node_count), "gpus": str(gpus)}


def request(job: Job, facts: Mapping[str, str]) -> JobRequest:
    """See Engine."""
    topology = topology_of(facts)
    rank_order = everything(topology) if topology is not None else None
    script, size = render(job, facts, rank_order), shape(job, facts)
    refuse_other_count(job.ranks, job.launch.ranks_per_node, size.nodes)
    place = f"{job.folder}/request/{SCRIPT}"
    if job.launch.job_id:
        command = Command(("bash", place))
    else:
        command = Command(("sbatch", "--parsable", *script.options, place))
    details = {
        "nodes": str(size.nodes),
        "per_node": str(size.per_node or 0),
        "step_of": job.launch.job_id,
        "called": value_of(split_words("--sbatch-args", job.launch.sbatch_args), "--job-name", "-J"),
        "partition": facts.get("partition", ""),
        "account": facts.get("account", ""),
        "bring": "yes" if job.launch.bring else "",
        # A step's script runs here, and has the bundle.
        ASKS_FOLLOWER: "yes" if job.launch.bring and not job.launch.job_id else "",
        **topology_slurm.detail(rank_order),
        "command": "" if job.work.is_busbw else "yes",
    }
    told = (unknown_mpi(job, size, facts), smaller_segment(job.launch, size.nodes))
    notes = tuple(filter(None, told))
    if unasked := facts.get("unasked"):
        guessed = "GPUs of a node are not known, so none are asked for, and srun's --mpi is a guess"
        notes = (*notes, f"Slurm could not be asked: {guessed}: {unasked}")
        details |= {"unasked": unasked, "unasked_hint": facts["unasked_hint"]}
    files = {SCRIPT: script.text}
    return JobRequest(
        "slurm",
        job.name,
        size.ranks,
        size.nodes,
        files,
        (command,),
        details,
        rank_order=rank_order,
        notes=notes,
    )


def submit(request: JobRequest, folder: Path) -> Handle:
    """See Engine."""
    (command,) = request.commands
    if unasked := request.details.get("unasked"):  # it would go without the GPUs that it needs
        raise SiteError(unasked, hint=request.details["unasked_hint"])
    if slurm_bring.is_wanted(request.details):
        slurm_bring.put(folder)
    if job := request.details["step_of"]:
        return _start_step(job, request, command, folder)
    unnumbered = Handle("slurm", request.name, request.name, dict(request.details))
    try:
        answer = commands.call(*command.argv, without=_shells_own(command))
    except commands.NoAnswer as error:
        raise Unanswered(error, unnumbered) from error
    except SiteError as error:
        error.hint = error.hint or "see what is asked for with --dry-run, and what Slurm takes with `sinfo`"
        raise
    # The job's number, and behind a semicolon its cluster where there are several.
    number = answer.strip().splitlines()[-1].split(";")[0] if answer.strip() else ""
    if not number.isdecimal():
        unsaid = SiteError(
            f"sbatch gave no job number: {answer.strip()[:200]!r}", hint="look at `squeue --me`"
        )
        raise Unanswered(unsaid, unnumbered)
    return replace(unnumbered, id=number)


def find(handle: Handle) -> Handle | None:
    """See Engine."""
    number = commands.find(handle.name, handle.details.get("called") or handle.name)
    return replace(handle, id=number) if number else None


def _shells_own(command: Command) -> tuple[str, ...]:
    """Variables of sbatch that would make it another job than was asked for, and that no word undoes."""
    return ("SBATCH_WAIT", "SBATCH_ARRAY_INX", *(() if "--exclusive" in command.argv else _SHARED))


def _start_step(job: str, request: JobRequest, command: Command, folder: Path) -> Handle:
    """The script runs here, in a session of its own: it and its srun outlive this process."""
    with (
        (folder / "log" / f"slurm-{job}.out").open("ab") as out,
        (folder / "log" / f"slurm-{job}.err").open("ab") as err,
    ):
        process = subprocess.Popen(
            command.argv,
            env=commands.environ_outside_jobs(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    keeper = {"pid": str(process.pid), "started": _start_time(process.pid), "host": socket.gethostname()}
    return Handle("slurm", job, request.name, {**request.details, **keeper})


def follow(handle: Handle, folder: Path) -> Iterator[Item]:
    """See Engine."""
    return Follower(handle, folder, lambda: state(handle)).items()


def cancel(handle: Handle, *, now: bool) -> None:
    """See Engine. The ranks alone are told to end, by SIGTERM, so that the script still sees their end and
    the record comes home; ``now`` kills them, and the job. (Without a signal, scancel kills a step.)
    Raises SiteError where Slurm does not take it.
    """
    steps = commands.steps(handle.id, handle.name)
    for step in steps:
        commands.end_step(f"--signal={'KILL' if now else 'TERM'}", step)
    if handle.details.get("step_of"):
        if (now or not steps) and _keeper_is_alive(handle):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(handle.details["pid"]), signal.SIGKILL if now else signal.SIGTERM)
    elif (now or not steps) and _look(handle).state:
        commands.end(handle.id)


def state(handle: Handle) -> JobState:
    """See Engine."""
    found = job_state(_look(handle))
    if not handle.details.get("step_of") or found.phase is not Phase.RUNNING:
        return found
    if _keeper_is_alive(handle) or commands.steps(handle.id, handle.name):
        return found
    return JobState(Phase.ENDED)


def _look(handle: Handle) -> Reading:
    """An allocation of somebody's has a name of its own; our step in it is known by its name."""
    if handle.details.get("step_of"):
        return commands.look(handle.id)
    return commands.look_for(handle.id, handle.name)


def _keeper_is_alive(handle: Handle) -> bool:
    pid = int(handle.details["pid"])
    here = handle.details["host"] == socket.gethostname()
    return here and bool(started := _start_time(pid)) and started == handle.details["started"]


def _start_time(pid: int) -> str:
    """When the process started, in ticks since boot: with its id, a name that no later process
    has. Empty where it has ended.
    """
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def collect(handle: Handle, folder: Path) -> None:
    """See Engine. The nodes' output is in the job's files by now: a file for each node is made from them."""
    slurm_bring.remove(folder)
    nodes = (folder / "log" / "nodes").read_text().split() if (folder / "log" / "nodes").is_file() else []
    per_node = int(handle.details["per_node"])
    if not nodes or not per_node:
        return
    for suffix in ("out", "err"):
        source = folder / "log" / f"slurm-{handle.id}.{suffix}"
        if not source.is_file():
            continue
        with source.open("rb") as file:
            found = split_by_node((line.rstrip(b"\n") for line in file), nodes, per_node)
        for node, lines in found.items():
            if lines:
                (folder / "log" / f"slurm-{handle.id}-{node}.{suffix}").write_bytes(b"\n".join((*lines, b"")))


def clean(handle: Handle) -> None:
    """See Engine. The job script, or the reader of its output, has removed what was on the nodes."""
