"""Slurm as an engine: a job of its own (sbatch), or a step in an allocation that is there (``--job-id``).

The job script (``script``) starts the ranks by srun, which carries their output; where the run folder
is not shared with the nodes, a step on the job's first node reads it there (``output``).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from busbw.errors import SiteError, UsageError, why
from busbw.launch import scheduler, settle
from busbw.launch.base import Command
from busbw.launch.batch import Shape
from busbw.launch.engine import Facts, Handle, Item, Job, JobRequest, JobState, Phase
from busbw.launch.scheduler import NoAnswer, ask, call
from busbw.launch.slurm import commands
from busbw.launch.slurm.commands import job_state, own_words, value_of
from busbw.launch.slurm.follow import Follower, LaunchReader, kept_nodes
from busbw.launch.slurm.script import (
    BUNDLE,
    render,
    render_launch,
    sbatch_words,
    segment_of,
    shape,
    unknown_mpi,
)
from busbw.launch.topology.order import RankOrder, order_of, read_topology
from busbw.model.finding import Finding, Severity
from busbw.plan.flags.launch import OF_NEW_JOB

if TYPE_CHECKING:
    from busbw.plan.flags.launch import LaunchSettings

# Queues can be long; reasons that waiting does not end are shown at once.
WAIT_SECONDS: float | None = None

SCRIPT: Final = "job.sbatch"
# How long a busy controller may take a job after it should have answered.
_LATE_SECONDS: Final = 5.0
# How long a step may be starting on its nodes.
_STARTS_SECONDS: Final = 15.0
# The detail of a job that runs a series: its loop is told to end, not the ranks.
SERIES: Final = "series"
_UNUSED: Final = {
    **dict.fromkeys(("hosts", "hostfile", "namespace", "context", "patch"), ""),
    "set": "give its flags (-N, --ranks-per-node, --image), or sbatch's: --sbatch-args=--gpus-per-node=8",
    "mpirun_args": "give --srun-args: srun starts the ranks",
}


def inquire(launch: LaunchSettings, command: tuple[str, ...] = (), *, dry: bool = False) -> Facts:
    """See Engine. Facts: python, family (of the MPI that the ranks would load), mpi (what srun offers), gpus
    (on a node), partition, account, user_id, setup (the script's text), job_nodes (of the allocation),
    topology.
    """
    from busbw.machine.program import command_family, python_family

    check(launch)
    facts = {
        "python": sys.executable,
        "user_id": str(os.getuid()),
        "setup": settle.read_setup(launch.setup_script),
    }
    facts |= _place(launch, dry=dry)
    facts["family"] = ""  # what an image has is not known here
    if not launch.image:
        facts["family"] = command_family(command) if command else python_family(launch.python)
    return {**facts, "topology": read_topology(launch)}


def check(launch: LaunchSettings) -> None:
    """See Engine."""
    settle.refuse_unused(launch, "Slurm", _UNUSED)
    if launch.bring and launch.image:
        raise UsageError("--bring and --image exclude each other", hint="put busbw into the image")
    own_words("--sbatch-args", launch.sbatch_args)
    own_words("--srun-args", launch.srun_args)
    settle.refuse_unlike(launch.time_limit, settle.SLURM_LIMIT, settle.SLURM_LIMIT_HINT)


def _offered_mpi() -> list[str]:
    """MPI plugins of srun: one a line, below a heading, with the versions of pmix on a line of their own."""
    done = ask(("srun", "--mpi=list"))
    words = [line.removeprefix("srun:").strip() for line in (done.stdout + "\n" + done.stderr).splitlines()]
    return [word for word in words if word and " " not in word]


def _place(launch: LaunchSettings, *, dry: bool) -> Mapping[str, str]:
    """Facts of the partition, or of the allocation; for a dry run also why Slurm cannot be asked."""
    if launch.job_id:
        return _place_in_job(launch)
    said = commands.chosen(launch, os.environ)
    try:
        return {**said, "mpi": " ".join(_offered_mpi()), **commands.asked(said["partition"])}
    except SiteError as error:
        if not dry:
            raise
        return {**said, "gpus": "0", "unasked": error.message}


def _place_in_job(launch: LaunchSettings) -> Mapping[str, str]:
    for name in launch.given():
        if name in OF_NEW_JOB:
            raise UsageError(
                f"{settle.flag_named(name)} is for a new job, but --job-id {launch.job_id} names one that"
                " runs",
                hint="leave one of them out; --srun-args sets options of a step",
            )
    reading = commands.look(launch.job_id)
    if job_state(reading).phase is not Phase.RUNNING:
        raise UsageError(
            f"job {launch.job_id} is not running ({reading.state.lower() or 'unknown to Slurm'})",
            hint="give --job-id of an allocation that is; `squeue --me` lists yours",
        )
    details = call("scontrol", "show", "job", "--details", launch.job_id)
    gpus = commands.read_allocated(details, reading.node_count)
    offered = " ".join(_offered_mpi())
    return {"mpi": offered, "job_nodes": str(reading.node_count), "gpus": str(gpus)}


def request(job: Job, facts: Facts) -> JobRequest:
    """See Engine."""
    rank_order = order_of(facts.get("topology"))
    script = render(job, facts, rank_order)
    settle.refuse_other_count(job.ranks, job.launch.ranks_per_node, shape(job, facts).nodes)
    return _request(job, script, facts, rank_order)


def series_request(series: Job, loop: tuple[str, ...], facts: Facts) -> JobRequest:
    """See SeriesEngine."""
    return _request(series, render(series, facts, loop=loop), facts, is_series=True)


def start(job: Job, series: Job, facts: Facts) -> Command:
    """See SeriesEngine. A launch is a step of the job."""
    return Command(("bash", "-c", render_launch(job, facts, order_of(facts.get("topology")))))


def sweep(series: Job, words: tuple[str, ...], facts: Facts) -> tuple[str, ...]:
    """See SeriesEngine."""
    nodes = int(facts.get("job_nodes", "") or shape(series, facts).nodes)
    held = (f"--jobid={series.launch.job_id}",) if series.launch.job_id else ()
    each = (f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1", "--mpi=none", "--wait=0")
    return ("srun", "--quiet", *held, "--overlap", *each, f"--job-name={series.name}-sweep", *words)


def reader(handle: Handle, folder: Path) -> LaunchReader:
    """See SeriesEngine."""
    return LaunchReader(kept_nodes(folder))


def _request(
    job: Job, script: str, facts: Facts, rank_order: RankOrder | None = None, *, is_series: bool = False
) -> JobRequest:
    launch, size, place = job.launch, shape(job, facts), f"{job.folder}/request/{SCRIPT}"
    words: tuple[str, ...] = ("bash", place)
    if not launch.job_id:
        asked, own = sbatch_words(job, size, facts)
        words = ("sbatch", "--parsable", *asked, *own, place)
    details = {
        "step_of": launch.job_id,
        "called": value_of(settle.split_words("--sbatch-args", launch.sbatch_args), "--job-name", "-J"),
        "partition": facts.get("partition", ""),
        "account": facts.get("account", ""),
        "bring": "yes" if launch.bring else "",
        "command": "" if job.work.is_busbw else "yes",
        **({SERIES: "yes"} if is_series else {}),
    }
    return JobRequest(
        "slurm",
        job.name,
        size.ranks,
        size.nodes,
        files={SCRIPT: script},
        commands=(Command(words),),
        details=details,
        rank_order=rank_order,
        notes=_notes(job, size, facts),
    )


def _notes(job: Job, size: Shape, facts: Facts) -> tuple[str, ...]:
    """What the user should know of the job that is asked for."""
    notes = [unknown_mpi(job, size, facts)]
    if segment_of(job.launch, size.nodes) not in (None, job.launch.segment):
        notes.append(
            f"--segment {job.launch.segment} is larger than the job: its {size.nodes} nodes are one segment"
        )
    wants_gpus = job.work.is_busbw and job.backend in ("auto", "nccl")
    if wants_gpus and facts.get("gpus") == "0" and (having := facts.get("gpu_partitions", "")):
        notes.append(f"partition {facts['partition']} has no GPUs; these have: {having} (--partition)")
    if "unasked" in facts:
        guessed = "the nodes' GPUs and srun's --mpi below are guesses (for 8 GPUs a node give --backend nccl"
        guessed += " --ranks-per-node 8 --sbatch-args=--gpus-per-node=8)"
        notes.append(f"Slurm could not be asked: {guessed}: {facts['unasked']}")
    return tuple(filter(None, notes))


def look_before(job: Job, request: JobRequest) -> Iterator[Finding]:
    """See Engine. Has sbatch try the job, and asks srun of containers. (Whether the nodes see the run folder
    is only known on them: the ranks say it.)
    """
    image = job.launch.image
    if not job.launch.job_id:
        yield from tried(request)
    if image:
        yield from image_findings(image, ask(("srun", "--help")).stdout, exists=Path(image).exists())


def tried(request: JobRequest) -> Iterator[Finding]:
    """Why Slurm would not start the job as its nodes are now (`sbatch --test-only`). That may pass, as where
    nodes are down; what does not pass, sbatch refuses when the job is submitted.
    """
    (command,), (script,) = request.commands, request.files.values()
    sbatch, _, *options = command.argv[:-1]  # but for --parsable and the script's place
    try:
        done = ask((sbatch, "--test-only", *options), text=script)
    except NoAnswer:  # with a long queue a trial may take longer than a submission
        return
    if done.returncode:
        words = scheduler.own_words(done.stderr.strip().splitlines()).removeprefix("allocation failure: ")
        claim = f"Slurm would not start this job now: {words}"
        yield Finding(Severity.WARNING, claim, hint=scheduler.hint_of(words, "sbatch"), check="nodes")


def image_findings(image: str, srun_help: str, *, exists: bool) -> Iterator[Finding]:
    """Whether this Slurm can start containers, and has the image's file where it is one. Pure."""
    if "--container-image" not in srun_help:
        yield Finding(
            Severity.ERROR,
            "this Slurm cannot start containers: srun has no --container-image (pyxis)",
            hint="install pyxis and enroot, or leave --image out",
            check="pyxis",
        )
    if image.startswith("/") and not exists:
        yield Finding(
            Severity.WARNING,
            f"the image {image} is not seen from here",
            hint="correct --image, or make sure that the nodes have it",
            check="image",
        )


def submit(request: JobRequest, folder: Path) -> Handle:
    """See Engine."""
    (command,) = request.commands
    if request.details["bring"]:
        _put_bundle(folder)
    if job := request.details["step_of"]:
        return _start_step(job, request, command, folder)
    # The job's number, and behind a semicolon its cluster where there are several.
    number = _submitted(request, command).strip().rpartition("\n")[2].split(";")[0]
    if not number.isdecimal():
        raise SiteError(f"sbatch gave no job number: {number[:200]!r}", hint="look at `squeue --me`")
    return Handle("slurm", number, request.name, dict(request.details))


def _put_bundle(folder: Path) -> None:
    """Lay what --bring brings beside the job script. Raises SiteError."""
    from busbw.launch.hosts.bring import make_bundle

    bundle, place = make_bundle(), folder / "request" / BUNDLE
    try:
        shutil.copyfile(bundle, place)
    except OSError as error:
        raise SiteError(f"cannot copy the bundle to {place}: {why(error)}", hint="make room there") from error


def _submitted(request: JobRequest, command: Command) -> str:
    """What sbatch answers. A busy controller may take a job and not say so in time: then the job is looked
    for by its name, so that none runs that nobody knows.
    """
    try:
        return call(*command.argv)
    except NoAnswer as error:
        called = request.details.get("called") or request.name
        time.sleep(_LATE_SECONDS)
        with contextlib.suppress(SiteError):
            if number := commands.find(called):
                return number
        error.hint = (
            f"run `squeue --me --name={called}` to see whether Slurm took the job, `scancel` to end it"
        )
        raise


def _start_step(job: str, request: JobRequest, command: Command, folder: Path) -> Handle:
    """The script runs here, in a session of its own: it and its srun outlive this process."""
    with (
        (folder / "log" / f"slurm-{job}.out").open("ab") as out,
        (folder / "log" / f"slurm-{job}.err").open("ab") as err,
    ):
        process = subprocess.Popen(
            command.argv,
            env=scheduler.environ_outside_jobs(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    own = {"pid": str(process.pid), "started": _start_time(process.pid), "host": socket.gethostname()}
    return Handle("slurm", job, request.name, {**request.details, **own})


def follow(handle: Handle, folder: Path) -> Iterator[Item]:
    """See Engine."""
    return Follower(handle, folder, lambda: state(handle)).items()


def cancel(handle: Handle, *, now: bool) -> None:
    """See Engine. The ranks alone are asked to end, by SIGTERM, or ``now`` killed, so that the script still
    sees their end, marks the end of its output, and the record comes home. (Without a signal, scancel kills a
    step.) Raises SiteError where Slurm does not take it.
    """
    if handle.details.get(SERIES) and not now:
        _end_loop(handle)
        return
    steps = commands.steps(handle.id, handle.name)
    for step in steps:
        commands.end(f"--signal={'KILL' if now else 'TERM'}", step, starts_s=_STARTS_SECONDS)
    if steps and not handle.details.get(SERIES):  # whose loop would start its next launch
        return
    if handle.details.get("step_of"):
        _signal_script(handle, signal.SIGKILL if now else signal.SIGTERM, os.killpg)
    elif commands.look(handle.id).state:
        commands.end(handle.id)


def _end_loop(handle: Handle) -> None:
    """The script hears it, and passes it on to the loop, which ends its launch."""
    if handle.details.get("step_of"):
        _signal_script(handle, signal.SIGTERM, os.kill)
    elif job_state(commands.look(handle.id)).phase is Phase.PENDING:
        commands.end(handle.id)
    else:
        commands.end("--batch", "--signal=TERM", handle.id)


def _signal_script(handle: Handle, number: signal.Signals, send: Callable[[int, int], None]) -> None:
    """Signals a step's script, which runs here: it alone (os.kill), or with its srun (os.killpg)."""
    if _script_is_alive(handle):
        with contextlib.suppress(ProcessLookupError):
            send(int(handle.details["pid"]), number)


def state(handle: Handle) -> JobState:
    """See Engine."""
    found = job_state(commands.look(handle.id))
    if not handle.details.get("step_of") or found.phase is not Phase.RUNNING:
        return found
    if _script_is_alive(handle) or commands.steps(handle.id, handle.name):
        return found
    return JobState(Phase.ENDED)


def _script_is_alive(handle: Handle) -> bool:
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
    """See Engine. The nodes' output is in the job's files by now; the bundle goes with the job."""
    (folder / "request" / BUNDLE).unlink(missing_ok=True)
