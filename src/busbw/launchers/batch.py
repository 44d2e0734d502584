"""AWS Batch as an engine: a multi-node parallel job whose ranks meet over busbw's own channel, submitted and
followed by the AWS command line. Not run on AWS.

Each node's container starts its own ranks, one a GPU, so neither MPI nor SSH is needed in the image.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from busbw.errors import SiteError, UsageError
from busbw.launchers import slurm_commands as commands
from busbw.launchers.base import Command
from busbw.launchers.command import PORT
from busbw.launchers.engine import Handle, Item, Job, JobRequest, JobState, Output, Phase, Unanswered
from busbw.launchers.patience import Patient
from busbw.launchers.time_limit import seconds_of
from busbw.settings.flag import flag_of

if TYPE_CHECKING:
    from busbw.settings.launch import LaunchSettings

WAIT_SECONDS: float | None = None

DEFINITION: Final = "job-definition.json"
# Not job.json: that is the handle, of every engine.
SUBMISSION: Final = "submit-job.json"
LOG_GROUP: Final = "/aws/batch/job"
_FOREIGN: Final = (
    *("hosts", "hostfile", "namespace", "context", "bring", "job_id", "segment", "mounts", "account"),
    *("srun_args", "sbatch_args", "mpirun_args", "setup_script"),
)
# --set KEY=VALUE. GPUs, processors and memory of a whole p5.48xlarge; nic counts EFA devices (32 there).
_KEYS: Final[Mapping[str, str]] = {
    "vcpus": "192",
    "gpu": "8",
    "memory": "1049000",  # MiB
    "nic": "0",
    "shm": "49152",  # MiB
    "nofile": "1024000",
    "instance-type": "",
    "job-role": "",
    "execution-role": "",
}
_COUNTS: Final = ("vcpus", "gpu", "memory", "nic", "shm", "nofile")
_STACK_BYTES: Final = 67108864
_LOOK_SECONDS: Final = 5.0
# How long a log is read on after the job's end, and after its last line: CloudWatch is seconds late.
_TRAIL_SECONDS: Final = 15.0
_PENDING: Final = frozenset({"SUBMITTED", "PENDING", "RUNNABLE", "STARTING"})

# A parameter of the job in a word of the container's command: Ref::name.
_REFERENCE: Final = "Ref::"

# Runs in the container of each node, with the ranks' words. The main node is not told its own address. All
# nodes have the job's id, which is the control channel's key: who can list the job can read it.
# Its own variables are called busbw_*: the user's are in the container's environment already.
_NODE: Final = """\
busbw_per_node={per_node}
BUSBW_TOKEN=${{AWS_BATCH_JOB_ID%%#*}}
busbw_main=${{AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS:-$(hostname -i | cut -d' ' -f1)}}
BUSBW_ROOT=${{BUSBW_ROOT:-$busbw_main}}
BUSBW_WORLD_SIZE=$((AWS_BATCH_JOB_NUM_NODES * busbw_per_node))
BUSBW_LOCAL_SIZE=$busbw_per_node
BUSBW_LAUNCHER=busbw
BUSBW_NODES=$AWS_BATCH_JOB_NUM_NODES BUSBW_NODE_RANK=$AWS_BATCH_JOB_NODE_INDEX
MASTER_ADDR=${{MASTER_ADDR:-$busbw_main}} MASTER_PORT=${{MASTER_PORT:-{port}}}
export BUSBW_TOKEN BUSBW_ROOT BUSBW_WORLD_SIZE BUSBW_LOCAL_SIZE BUSBW_LAUNCHER
export BUSBW_NODES BUSBW_NODE_RANK MASTER_ADDR MASTER_PORT
busbw_ranks=
busbw_local=0
while [ "$busbw_local" -lt "$busbw_per_node" ]; do
  BUSBW_RANK=$((AWS_BATCH_JOB_NODE_INDEX * busbw_per_node + busbw_local)) BUSBW_LOCAL_RANK=$busbw_local "$@" &
  busbw_ranks="$busbw_ranks $!"
  busbw_local=$((busbw_local + 1))
done
busbw_code=0
for busbw_rank in $busbw_ranks; do
  wait "$busbw_rank" || {{
    busbw_ended=$?
    if [ "$busbw_code" = 0 ]; then busbw_code=$busbw_ended; fi
  }}
done
exit "$busbw_code"
"""


def inquire(launch: LaunchSettings, command: tuple[str, ...] = ()) -> Mapping[str, str]:  # noqa: ARG001
    """See Engine. Nothing is asked: the request can be written anywhere."""
    check(launch)
    return {}


def check(launch: LaunchSettings) -> None:
    """See Engine."""
    for name in launch.given():
        if name in _FOREIGN:
            flag = flag_of(name)
            raise UsageError(f"{flag} means nothing on AWS Batch", hint="leave it out")
    if launch.topology:
        raise UsageError(
            "--topology cannot be applied on AWS Batch, which numbers the nodes itself",
            hint="leave it out, or use --on hosts or slurm",
        )
    _values(launch.set)
    seconds_of(launch.time_limit)


def request(job: Job, facts: Mapping[str, str]) -> JobRequest:  # noqa: ARG001 (as an Engine has it)
    """See Engine."""
    values = _values(job.launch.set)
    nodes = int(job.launch.nodes or 0)
    if nodes < 1:
        raise UsageError("how many nodes is not said", hint="give --nodes, as in -N 2")
    if not job.launch.image:
        raise UsageError(
            "no container image given", hint="give --image NAME: an image that has Python and busbw"
        )
    if job.world == "mpi" or job.launch.mpi in ("openmpi", "mpich") or job.backend == "mpi":
        raise UsageError("ranks on AWS Batch have no mpirun", hint="leave --mpi and --world out")
    _refuse_references(job)
    per_node = job.launch.ranks_per_node or int(values["gpu"]) or 1
    if job.ranks is not None and job.ranks != nodes * per_node:
        raise UsageError(
            f"--ranks {job.ranks} do not fill {nodes} nodes of {per_node}",
            hint="give --ranks-per-node instead",
        )
    submission = {
        "jobName": job.name,
        "jobQueue": job.launch.partition or "QUEUE",
        "jobDefinition": job.name,
        "propagateTags": True,
        "retryStrategy": {"attempts": 1},
        **_timeout(job.launch.time_limit),
    }
    files = {DEFINITION: _text(_definition(job, values, nodes, per_node)), SUBMISSION: _text(submission)}
    place = f"file://{job.folder}/request"
    aws = ("aws", "batch")
    register = Command((*aws, "register-job-definition", "--cli-input-json", f"{place}/{DEFINITION}"))
    submit_job = Command((*aws, "submit-job", "--cli-input-json", f"{place}/{SUBMISSION}"))
    details = {"queue": str(submission["jobQueue"])}
    return JobRequest("batch", job.name, nodes * per_node, nodes, files, (register, submit_job), details)


def _refuse_references(job: Job) -> None:
    """Nothing in a job definition says that such a word is meant as it is."""
    for word in job.argv(job.launch.python or "python3"):
        if _REFERENCE in word:
            raise UsageError(
                f"AWS Batch takes {_REFERENCE} in {word!r} for a parameter of its job, and replaces it",
                hint="""let a shell put it together, as in: sh -c 'program Ref:":"name'""",
            )


def _values(given: tuple[str, ...]) -> dict[str, str]:
    values = dict(_KEYS)
    for word in given:
        key, equals, value = word.removeprefix("batch.").partition("=")
        if not equals or key not in _KEYS:
            raise UsageError(
                f"--set {word!r} is not known to AWS Batch jobs", hint=f"use one of: {', '.join(_KEYS)}"
            )
        if key in _COUNTS and not value.isdecimal():
            raise UsageError(f"--set {word} is no count", hint="give a whole number")
        values[key] = value
    return values


def _definition(job: Job, values: Mapping[str, str], nodes: int, per_node: int) -> dict[str, Any]:
    words = job.argv(job.launch.python or "python3")
    container: dict[str, Any] = {
        "image": job.launch.image,
        "command": ["/bin/sh", "-c", _NODE.format(per_node=per_node, port=PORT), "busbw-node", *words],
        "environment": [{"name": name, "value": value} for name, value in job.environ.items()],
        "resourceRequirements": [
            {"type": kind, "value": values[key]}
            for kind, key in (("VCPU", "vcpus"), ("MEMORY", "memory"), ("GPU", "gpu"))
            if values[key] != "0"
        ],
        "linuxParameters": {
            "devices": [_device(number) for number in range(int(values["nic"]))],
            "sharedMemorySize": int(values["shm"]),
        },
        "ulimits": [
            {"name": "memlock", "softLimit": -1, "hardLimit": -1},
            {"name": "stack", "softLimit": _STACK_BYTES, "hardLimit": _STACK_BYTES},
            {"name": "nofile", "softLimit": int(values["nofile"]), "hardLimit": int(values["nofile"])},
        ],
    }
    for key, field in (("instance-type", "instanceType"), ("job-role", "jobRoleArn")):
        if values[key]:
            container[field] = values[key]
    if values["execution-role"]:
        container["executionRoleArn"] = values["execution-role"]
    every_node = [{"targetNodes": "0:", "container": container}]
    return {
        "jobDefinitionName": job.name,
        "type": "multinode",
        "nodeProperties": {"numNodes": nodes, "mainNode": 0, "nodeRangeProperties": every_node},
    }


def _device(number: int) -> dict[str, Any]:
    path = f"/dev/infiniband/uverbs{number}"
    return {"hostPath": path, "containerPath": path, "permissions": ["READ", "WRITE", "MKNOD"]}


def _timeout(time_limit: str) -> dict[str, Any]:
    seconds = seconds_of(time_limit)
    if seconds is None:
        return {}
    return {"timeout": {"attemptDurationSeconds": max(60, seconds)}}  # AWS Batch takes no less


def _text(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def submit(request: JobRequest, folder: Path) -> Handle:  # noqa: ARG001 (as an Engine has it)
    """See Engine."""
    register, submit_job = request.commands
    try:
        definition = str(_answer(*register.argv)["jobDefinitionArn"])
    except commands.NoAnswer:
        with contextlib.suppress(SiteError):
            _forget(f"{request.name}:1")  # the first of its name, where it is there
        raise
    handle = Handle("batch", request.name, request.name, {**request.details, "definition": definition})
    try:
        job = _answer(*submit_job.argv)
    except commands.NoAnswer as error:
        raise Unanswered(error, handle) from error
    except SiteError:
        _forget(definition)
        raise
    return replace(handle, id=str(job["jobId"]))


def find(handle: Handle) -> Handle | None:
    """See Engine."""
    words = ("aws", "batch", "list-jobs", "--job-queue", handle.details["queue"])
    found = _answer(*words, "--filters", f"name=JOB_NAME,values={handle.name}").get("jobSummaryList", [])
    return replace(handle, id=str(found[0]["jobId"])) if found else None


def _answer(*words: str) -> dict[str, Any]:
    text = commands.call(*words, "--output", "json", engine="AWS Batch")
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise SiteError(f"{words[2]}: no JSON: {text[:200]!r}", hint="look at `aws --version`") from error
    return dict(fields)


def _forget(definition: str) -> None:
    commands.ask(("aws", "batch", "deregister-job-definition", "--job-definition", definition), "AWS Batch")


def follow(handle: Handle, folder: Path) -> Iterator[Item]:  # noqa: ARG001 (as an Engine has it)
    """See Engine. Output is the main node's, as CloudWatch has it, some seconds late: what trails the end is
    waited for.
    """
    log, server = _Log(handle), Patient(lambda: state(handle), handle.id)
    last: JobState | None = None
    quiet_until_s = 0.0
    while True:
        found = server.state() or last
        if found is not None and found != last:
            if found.phase is Phase.ENDED:
                quiet_until_s = time.monotonic() + _TRAIL_SECONDS
            else:
                yield found
        last = found
        if found is not None and found.phase is not Phase.PENDING:
            for line in log.read():
                quiet_until_s = max(quiet_until_s, time.monotonic() + _TRAIL_SECONDS)
                yield Output(line, "node 0")
            if found.phase is Phase.ENDED and time.monotonic() >= quiet_until_s:
                yield found
                return
        yield from _pause()


class _Log:
    """The main node's log, page after page."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._stream, self._token = "", ""

    def read(self) -> Iterator[str]:
        """The lines that are new. What cannot be asked now is asked the next time."""
        with contextlib.suppress(SiteError):
            self._stream = self._stream or _log_stream(self._handle)
            while self._stream:
                lines, following = _log_lines(self._stream, self._token)
                yield from lines
                if following == self._token or not following:
                    return
                self._token = following


def _pause() -> Iterator[None]:
    deadline_s = time.monotonic() + _LOOK_SECONDS
    while time.monotonic() < deadline_s:
        yield None
        time.sleep(0.4)


def _job(handle_id: str) -> dict[str, Any]:
    found = _answer("aws", "batch", "describe-jobs", "--jobs", handle_id).get("jobs", [])
    return dict(found[0]) if found else {}


def _log_stream(handle: Handle) -> str:
    """The main node's log."""
    return str(_job(_main_node(handle)).get("container", {}).get("logStreamName", ""))


def _main_node(handle: Handle) -> str:
    """Nodes of a job are jobs of their own, JOB#0 and so on."""
    return f"{handle.id}#0"


def _log_lines(stream: str, token: str) -> tuple[list[str], str]:
    """A page of a log, and the name of the next one, which is the same at the end."""
    words = ["aws", "logs", "get-log-events", "--log-group-name", LOG_GROUP, "--log-stream-name", stream]
    words += ["--start-from-head", *(("--next-token", token) if token else ())]
    page = _answer(*words)
    lines = [line for item in page.get("events", []) for line in str(item["message"]).splitlines()]
    return lines, str(page.get("nextForwardToken", ""))


def cancel(handle: Handle, *, now: bool) -> None:  # noqa: ARG001 (as an Engine has it)
    """See Engine. It ends running containers too, after SIGTERM and 30 s. A job that has ended is no error
    there. Raises SiteError where AWS does not take it.
    """
    words = ("aws", "batch", "terminate-job", "--job-id", handle.id, "--reason", "cancelled by busbw")
    commands.call(*words, engine="AWS Batch")


def state(handle: Handle) -> JobState:
    """See Engine. A multi-node job has no container, and so no exit code, of its own: where it failed, its
    main node's is the job's.
    """
    found = read_state(_job(handle.id))
    if found.phase is not Phase.ENDED or found.code is not None:
        return found
    main = read_state(_job(_main_node(handle)))
    return replace(found, code=main.code or None) if main.phase is Phase.ENDED else found


def read_state(job: Mapping[str, Any]) -> JobState:
    """The answer of describe-jobs for one job."""
    status, why = str(job.get("status", "")), str(job.get("statusReason", ""))
    if not job:
        return JobState(Phase.ENDED, why="AWS Batch does not know the job any more")
    if status in _PENDING:
        # RUNNABLE with MISCONFIGURATION:... does not end by itself.
        hopeless = why.startswith("MISCONFIGURATION")
        return JobState(
            Phase.PENDING,
            why=why or status,
            hopeless=hopeless,
            hint="look at the compute environment of the queue" if hopeless else "",
        )
    if status == "RUNNING":
        return JobState(Phase.RUNNING)
    code = job.get("container", {}).get("exitCode")
    if code is None:
        code = 0 if status == "SUCCEEDED" else None
    return JobState(Phase.ENDED, why="" if code == 0 else why, code=code)


def collect(handle: Handle, folder: Path) -> None:
    """See Engine. Other nodes' output stays in CloudWatch; each line tells where."""
    streams = [
        f"node {index}: {LOG_GROUP} {name}\n"
        for index in range(int(_job(handle.id).get("nodeProperties", {}).get("numNodes", 0)))
        if (name := _job(f"{handle.id}#{index}").get("container", {}).get("logStreamName"))
    ]
    if streams:
        (folder / "log" / "cloudwatch.txt").write_text("".join(streams))


def clean(handle: Handle) -> None:
    """See Engine: the job definition goes."""
    _forget(handle.details["definition"])
