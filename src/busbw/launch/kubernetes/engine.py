"""The Kubernetes engine: MPIJob (MPI Operator v2beta1), indexed Job and JobSet."""

from __future__ import annotations

import base64
import contextlib
import io
import secrets
import shlex
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any, Final

from ruamel.yaml.error import YAMLError

from busbw.errors import SiteError, UsageError, why
from busbw.launch.base import Command
from busbw.launch.engine import Facts, Handle, Item, Job, JobRequest, JobState
from busbw.launch.kubernetes import manifest
from busbw.launch.kubernetes.api import (
    PARTS,
    POD,
    RESOURCES,
    Api,
    Denied,
    NoLogin,
    NotFound,
    Refused,
    context_namespace,
)
from busbw.launch.kubernetes.follow import Follower, SubmittedJob
from busbw.launch.kubernetes.form import read_form
from busbw.launch.kubernetes.logs import read_log
from busbw.launch.kubernetes.manifest import JOB_FILE
from busbw.launch.kubernetes.state import MAY_PASS, job_state, without_pod_name
from busbw.launch.kubernetes.yaml import from_yaml, to_yaml
from busbw.launch.scheduler import NoAnswer
from busbw.launch.topology.order import order_of, read_topology
from busbw.model.event import decode
from busbw.model.finding import Finding, Severity
from busbw.plan.flags.engines import ENGINES
from busbw.plan.flags.launch import LaunchSettings
from busbw.rank.profile import option

WAIT_SECONDS: float | None = 900.0

# What judges and draws records and submits jobs, which is done where the job is submitted.
NOT_FOR_RANKS: Final = (
    *("busbw/judge/", "busbw/report/templates/", "busbw/report/plots", "busbw/report/text_"),
    *("busbw/foreign/logs/", "busbw/foreign/nsys/"),
    *(f"busbw/launch/{engine}/" for engine in ENGINES if engine != "hosts"),  # ranks reach hosts as it does
)
_FOR_PODS: Final = "busbw/launch/kubernetes/pod.py"
# An admission webhook that has effects of its own makes the server refuse every dry run.
_NO_DRY_RUN: Final = "does not support dry run"
_NOT_ASKED: Final = Finding(Severity.INFO, "admission was not checked: this user may not ask for a dry run")


# On every worker at once, then here: $0 is the text for a worker's shell, the words are for this one. A
# worker that is gone, or is another one of its name, makes it fail.
_EVERYWHERE: Final = """\
code=0 pids=
while read -r worker rest; do
  ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \\
    -o ConnectTimeout=10 "${worker%%:*}" "$0 $last" </dev/null &
  pids="$pids $!"
done </etc/mpi/hostfile
for pid in $pids; do wait "$pid" || code=1; done
"$@" || code=1
exit "$code"
"""


def inquire(launch: LaunchSettings, command: tuple[str, ...] = (), *, dry: bool = False) -> Facts:
    """The namespace, a token for the ranks, the bundle for --bring, the patch, and the topology.
    Asks no server: --dry-run works without one. Raises UsageError.
    """
    named = context_namespace(launch.context)
    facts: dict[str, Any] = {"namespace": launch.namespace or named, "token": secrets.token_hex(16)}
    facts["topology"] = read_topology(launch)
    if launch.bring:
        facts["bundle"] = _bundle()
    if launch.patch is not None:
        facts["patch"] = _read_patch(launch.patch)
    return facts


def _read_patch(path: Path) -> manifest.Object:
    """Raises UsageError for what is not one mapping in YAML."""
    try:
        found = from_yaml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, YAMLError) as error:
        raise UsageError(f"cannot read --patch {path}: {why(error)}", hint="name a YAML file") from error
    if len(found) != 1 or not isinstance(found[0], dict):
        raise UsageError(
            f"--patch {path} is not one mapping", hint="write the part of the manifest that is to change"
        )
    return found[0]


def request(job: Job, facts: Facts) -> JobRequest:
    """The manifest. Raises UsageError for settings that do not fit."""
    form, order, namespace = read_form(job), order_of(facts.get("topology")), facts["namespace"]
    details = {"kind": form.kind, "slots": str(form.slots)}
    details |= {"context": job.launch.context, "namespace": namespace}
    details |= {"token": facts["token"]} if form.kind != "mpijob" else {}
    details |= {"bundle": facts["bundle"]} if job.launch.bring else {}
    documents = manifest.documents(job, form, namespace, order, facts.get("patch"))
    return JobRequest(
        engine="kubernetes",
        name=manifest.object_name(job),
        ranks=form.ranks,
        nodes=form.workers,
        files={JOB_FILE: to_yaml(documents)},
        details=details,
        rank_order=order,
    )


def start(job: Job, series: Job, facts: Facts) -> Command:
    """See SeriesEngine. The loop is in the launcher's pod, and so is each launch's mpirun, which is that of a
    job of its own on as many workers.
    """
    order, workers = order_of(facts.get("topology")), int(series.launch.nodes or 1)
    return manifest.launcher(job, read_form(job), order, of_workers=workers)


def sweep(series: Job, words: tuple[str, ...], facts: Facts) -> tuple[str, ...]:
    """See SeriesEngine."""
    text = "for last; do :; done\n" + _EVERYWHERE
    return ("sh", "-c", text, shlex.join(words), *words)


def series_request(series: Job, loop: tuple[str, ...], facts: Facts) -> JobRequest:
    """See SeriesEngine. Raises UsageError for a job without a launcher."""
    alone = request(series, facts)
    if (kind := alone.details["kind"]) != "mpijob":
        raise UsageError(
            f"a series of setups needs a launcher's pod, which a {kind} has not",
            hint="give --set kind=mpijob without --mpi none, or measure each setup with `busbw run`",
        )
    documents = from_yaml(alone.files[JOB_FILE])
    launcher, _ = manifest.pod_templates(documents[-1])
    container = launcher["spec"]["containers"][0]
    container.pop("args", None)
    words = (series.launch.python or "python3", *loop)
    container["command"] = [manifest.escaped(word) for word in words]
    return replace(alone, files={**alone.files, JOB_FILE: to_yaml(documents)})


def look_before(job: Job, request: JobRequest) -> tuple[Finding, ...]:
    """See Engine. The server judges the job and a pod of each kind without keeping them (`dryRun`): what it
    refuses is shown in its own words. It judges one pod at a time, so a quota that has room for one pod and
    not for all of them shows only while the job waits, as do nodes that are too few: the scheduler names
    them.
    """
    api = Api(request.details["context"], request.details["namespace"])
    documents = from_yaml(request.files[JOB_FILE])
    pods = []
    for number, template in enumerate(manifest.pod_templates(documents[-1])):
        metadata = {**template["metadata"], "name": f"busbw-preflight-{number}"}
        pods.append({"apiVersion": "v1", "kind": "Pod", **template, "metadata": metadata})
    waits = not option(job.work.words, "--stop-after")  # a preflight has nothing to wait for
    found = [judged(api, body, waits=waits) for body in (*documents, *pods)]
    return tuple(dict.fromkeys(finding for finding in found if finding is not None))


def judged(api: Api, body: manifest.Object, *, waits: bool) -> Finding | None:
    """The server's answer of an object; None where it would take the object. A controller tries again to
    create pods that a quota forbids, so a job that ``waits`` may get them.
    """
    try:
        api.create(body, dry_run=True)
    except (NoAnswer, NoLogin):
        raise
    except Denied:
        return _NOT_ASKED
    except Refused as error:
        if _NO_DRY_RUN in error.words:
            return _NOT_ASKED
        is_lasting = body["kind"] != "Pod" or not waits or not MAY_PASS.search(error.words)
        severity = Severity.ERROR if is_lasting else Severity.WARNING
        return Finding(severity, without_pod_name(error.words), hint=error.hint, check="admission")
    except SiteError as error:
        return Finding(Severity.ERROR, error.message, hint=error.hint, check="admission")
    return None


def submit(request: JobRequest, folder: Path) -> Handle:
    """Create the objects; what the job needs first, then the job, which then owns the rest."""
    api = Api(request.details["context"], request.details["namespace"])
    *parts, job = from_yaml((folder / "request" / JOB_FILE).read_text())
    parts = [*manifest.unwritten(request.name, request.details), *parts]
    _check_rights(api, [*parts, job])
    kept = {name: request.details[name] for name in ("kind", "slots", "context", "namespace")}
    handle = Handle("kubernetes", f"{api.namespace}/{request.name}", request.name, kept)
    created: list[manifest.Object] = []
    for part in (*parts, job):
        try:
            created.append(api.create(part))
        except SiteError as error:
            if isinstance(error, NoAnswer):  # it may be there all the same
                created.append(part)
                plural = RESOURCES[job["kind"]].plural
                error.hint = f"run `kubectl delete {plural} {request.name} -n {api.namespace}`"
            for each in created:
                with contextlib.suppress(SiteError):
                    api.delete(RESOURCES[each["kind"]], request.name)
            raise
    for each in created[:-1]:
        api.own({**job, **created[-1]}, RESOURCES[each["kind"]], request.name)
    return handle


def _check_rights(api: Api, objects: list[manifest.Object]) -> None:
    """Everything that a run does later is asked before it starts: half a run is worse than none."""
    job = RESOURCES[objects[-1]["kind"]]
    wanted = [("create", RESOURCES[one["kind"]], "") for one in objects]
    wanted += [("get", job, ""), ("delete", job, ""), ("list", POD, ""), ("get", POD, "log")]
    missing = api.missing_rights(wanted)
    if missing:
        raise SiteError(
            f"not allowed in namespace {api.namespace} of {api.host}: {', '.join(missing)}",
            hint="ask the cluster's administrator for these rights, or give another --namespace",
        )


def _bundle() -> str:
    """Our own files as one compressed stream in base64: many small files share their words, and Python's own
    ``tarfile`` unpacks it everywhere. A ConfigMap holds 1 MiB.
    """
    data = io.BytesIO()
    with (
        tarfile.open(fileobj=data, mode="w:gz") as archive,
        resources.as_file(resources.files("busbw")) as package,
    ):
        for path in sorted(package.rglob("*")):
            name = f"busbw/{path.relative_to(package).as_posix()}"
            is_wanted = name == _FOR_PODS or not name.startswith(NOT_FOR_RANKS)
            if path.is_file() and "__pycache__" not in path.parts and is_wanted:
                archive.add(path, name, filter=_of_nobody)
    return base64.b64encode(data.getvalue()).decode()


def _of_nobody(file: tarfile.TarInfo) -> tarfile.TarInfo:
    """Whoever the pod's user is may read it, whatever the submitter's user and umask are."""
    file.uid = file.gid = 0
    file.uname = file.gname = ""
    file.mode = 0o644
    return file


def follow(handle: Handle, folder: Path) -> Iterator[Item]:
    """States as they change and lines of all pods, each pod's from its first."""
    return Follower(SubmittedJob(handle), folder).follow()


def cancel(handle: Handle, *, now: bool) -> None:
    """Delete the job with all that it owns; its pods get their grace period unless ``now``."""
    job = SubmittedJob(handle)
    job.api.delete(job.resource, job.name, first=now)  # else its pods begin their grace period with it
    if now:
        with contextlib.suppress(SiteError):  # a right that not everybody has; the grace period is short
            job.api.kill_pods(job.selector)


def state(handle: Handle) -> JobState:
    """The state at this moment."""
    return job_state(SubmittedJob(handle).look())


def collect(handle: Handle, folder: Path) -> None:
    """Every pod's output to log/POD.log; what was followed is there already. Events are left out: they are
    in log/stream.jsonl.
    """
    job = SubmittedJob(handle)
    (folder / "log").mkdir(exist_ok=True)
    for pod in job.pods():
        path = folder / "log" / f"{pod.name}.log"
        if not pod.has_started or path.exists():
            continue
        partial = path.with_suffix(".partial")
        with partial.open("w") as file, contextlib.suppress(NotFound):
            lines = read_log(job.api, pod.name, pod.container)
            file.writelines(f"{text}\n" for text in lines if decode(text) is None)
        partial.replace(path)


def clean(handle: Handle) -> None:
    """Delete the job, wait until it is gone, and delete what it did not own."""
    job = SubmittedJob(handle)
    job.api.delete(job.resource, job.name)
    is_gone = job.api.wait_gone(job.resource, job.name)
    for resource in PARTS:
        with contextlib.suppress(Denied):
            job.api.delete(resource, job.name)
    if not is_gone:
        raise SiteError(
            f"{job.resource.kind} {handle.id} is still being deleted",
            hint=f"look at kubectl get {job.resource.plural},pods -n {job.api.namespace}",
        )
