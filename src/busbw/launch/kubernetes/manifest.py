"""The objects that a job on Kubernetes is made of: MPIJob v2beta1, indexed Job or JobSet. Pure.

templates/ has a manifest of each kind; this file has the values for it. Kubernetes replaces ``$(NAME)`` in a
container's words and values; every ``$`` is written twice, which it turns back into one, so that what the
user wrote arrives as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from typing import Any, Final

from busbw.launch import command
from busbw.launch.engine import Job
from busbw.launch.kubernetes.form import HOSTNAME, Form
from busbw.launch.kubernetes.launch_script import (
    launch_script,
    launcher_environ,
    launcher_words,
    rank_environ,
)
from busbw.launch.kubernetes.yaml import fill, from_yaml, merged
from busbw.launch.topology.order import RankOrder

Object = dict[str, Any]

JOB_FILE: Final = "job.yaml"
TOKEN_KEY: Final = "token"
BUNDLE_KEY: Final = "busbw.tar.gz"
_KEEP_SECONDS: Final = 7 * 24 * 3600
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def object_name(job: Job) -> str:
    """The job's name as Kubernetes allows it."""
    return job.name.replace("_", "-")


def labels(name: str) -> Mapping[str, str]:
    """The labels of everything that belongs to one job."""
    return {"app.kubernetes.io/name": "busbw", "app.kubernetes.io/instance": name}


def documents(
    job: Job,
    form: Form,
    namespace: str,
    rank_order: RankOrder | None = None,
    patch: Mapping[str, Any] | None = None,
) -> list[Object]:
    """The objects to create, in order; the last is the job, which owns the others. ``rank_order`` is of nodes
    (MPIJob only), ``patch`` the user's own changes of the job.
    """
    values = _values(job, form, namespace)
    values |= _mpi_values(job, form, rank_order) if form.kind == "mpijob" else _job_values(job, form)
    if form.kind == "jobset":
        inner = {**values, "subdomain": "", "keep seconds": None}  # a JobSet has these of its own
        values["job spec"] = fill(_template("job")[-1], inner)["spec"]
    names = [*(["computedomain"] if form.compute_domain is not None else []), form.kind]
    *parts, body = [fill(each, values) for name in names for each in _template(name)]
    return [*parts, merged(body, patch or {})]


def pod_templates(body: Object) -> list[Object]:
    """The templates of a job's pods; of an MPIJob the launcher's is the first."""
    spec = body["spec"]
    if body["kind"] == "MPIJob":
        return [each["template"] for each in spec["mpiReplicaSpecs"].values()]
    if body["kind"] == "JobSet":
        spec = spec["replicatedJobs"][0]["template"]["spec"]
    return [spec["template"]]


def _template(name: str) -> list[Object]:
    folder = resources.files("busbw.launch.kubernetes") / "templates"
    return from_yaml((folder / f"{name}.yaml").read_text())


def secret(name: str, token: str) -> Object:
    """What the ranks of a world without MPI prove that they belong together by."""
    return _object("v1", "Secret", name, stringData={TOKEN_KEY: token})


def bundle(name: str, packed_base64: str) -> Object:
    """What --bring brings, for an image that lacks it."""
    return _object("v1", "ConfigMap", name, binaryData={BUNDLE_KEY: packed_base64})


def escaped(text: str) -> str:
    """``text`` as a container's word or value that Kubernetes leaves as it was."""
    return text.replace("$", "$$")


def _object(version: str, kind: str, name: str, **fields: object) -> Object:
    metadata = {"name": name, "labels": dict(labels(name))}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def _values(job: Job, form: Form, namespace: str) -> dict[str, Any]:
    """What every kind of job has: the names of the templates, and their values. Words of --set that stand
    there as they were given have their own names.
    """
    name, words = object_name(job), form.words
    own = dict(labels(name))
    ranks = {**own, "app.kubernetes.io/component": "ranks"}
    annotations = dict(words.annotation)
    queue = {"kueue.x-k8s.io/queue-name": words.queue} if words.queue else {}
    networks = {"k8s.v1.cni.cncf.io/networks": ",".join(words.networks)} if words.networks else {}
    gpus = [resource for resource in form.resources if resource.endswith("/gpu")]
    return {
        **{word.replace("_", " "): value for word, value in vars(words).items()},
        "name": name,
        "namespace": namespace,
        "own labels": own,
        "job labels": {**dict(words.label), **queue, **own},
        "job annotations": annotations,
        "image": form.image,
        "workers": form.workers,
        "deadline seconds": form.deadline_seconds,
        "keep seconds": _KEEP_SECONDS,
        "rank labels": {**dict(words.label), **ranks},
        "rank annotations": {**networks, **annotations},
        "resources": dict(form.resources),
        "node selector": {label: values[0] for label, values in form.labels.items() if len(values) == 1},
        "affinity": _affinity(form, ranks),
        "spread": _spread(form, ranks),
        "rank tolerations": [*({"key": gpu, "operator": "Exists"} for gpu in gpus), *words.toleration],
        "pull secrets": [{"name": secret} for secret in words.pull_secret],
        **_domain_values(name, form),
        **_volume_values(name, job, form),
    }


def _domain_values(name: str, form: Form) -> dict[str, Any]:
    """A ComputeDomain, and the claim of its channel in each worker."""
    channel = f"{name}-channel"
    claim = {"name": "compute-domain-channel"}
    claims = [] if form.compute_domain is None else [claim]
    return {
        "compute domain": form.compute_domain,
        "channel": channel,
        "claims": claims,
        "resource claims": [{**each, "resourceClaimTemplateName": channel} for each in claims],
    }


def _volume_values(name: str, job: Job, form: Form) -> dict[str, Any]:
    """The host's folders, and with --bring busbw's own files, which a container unpacks first."""
    host_volumes, host_mounts = [], []
    for number, (source, target, is_read_only) in enumerate(form.mounts):
        volume = f"mount-{number}"
        host_volumes.append({"name": volume, "hostPath": {"path": source}})
        read_only = {"readOnly": True} if is_read_only else {}
        host_mounts.append({"name": volume, "mountPath": target, **read_only})
    packed = {"name": "busbw-bundle", "mountPath": "/busbw-bundle"}
    unpacked = {"name": "busbw", "mountPath": "/busbw"}
    unpack = {
        "name": "bring",
        "image": form.image,
        "command": [escaped(form.python), "-m", "tarfile", "-e", f"/busbw-bundle/{BUNDLE_KEY}", "/busbw"],
        "volumeMounts": [packed, unpacked],
    }
    brought = [{"name": "busbw-bundle", "configMap": {"name": name}}, {"name": "busbw", "emptyDir": {}}]
    return {
        "host volumes": host_volumes,
        "host mounts": host_mounts,
        "init containers": [unpack] if job.launch.bring else [],
        "bring volumes": brought if job.launch.bring else [],
        "bring mounts": [unpacked] if job.launch.bring else [],
    }


def _mpi_values(job: Job, form: Form, rank_order: RankOrder | None) -> dict[str, Any]:
    words = form.words
    requests = {"cpu": words.launcher_cpu, "memory": words.launcher_memory}
    return {
        "slots": form.slots,
        "mpi implementation": "OpenMPI" if form.mpi == "openmpi" else "MPICH",
        "launch script": escaped(launch_script(job, form, rank_order)),
        "launcher words": [escaped(word) for word in launcher_words(job)],
        "launcher env": _env(launcher_environ(job, form)),
        "launcher resources": {name: quantity for name, quantity in requests.items() if quantity},
        "launcher labels": {**dict(words.label), **labels(object_name(job))},
        "launcher annotations": dict(words.annotation),
        "launcher tolerations": list(words.toleration),
    }


def _job_values(job: Job, form: Form) -> dict[str, Any]:
    """One pod a worker, numbered; the pod's number makes its ranks' numbers."""
    name = object_name(job)
    pod = f"{name}-ranks-0" if form.kind == "jobset" else name
    hosts = [f"{pod}-{number}.{name}" for number in range(form.workers)]
    argv = job.argv(form.python)
    environ = dict(rank_environ(job))
    if not job.work.is_busbw:
        argv = command.entered(argv, "$JOB_COMPLETION_INDEX")
        found = command.host_list(dict.fromkeys(hosts, form.gpus or form.slots))
        environ = {command.HOSTS: found, **environ}
    if form.slots > 1:
        argv = (form.python, "-m", "busbw.launch.kubernetes.pod", str(form.slots), *argv)
    return {
        "world size": str(form.ranks),
        "root host": hosts[0],
        "rank words": [escaped(word) for word in argv],
        "rank env": _env(environ),
        "subdomain": name,
    }


def _affinity(form: Form, ranks: Mapping[str, str]) -> Object:
    """Which nodes: by their labels and names, and by where the job's other pods are."""
    pods = {"labelSelector": {"matchLabels": dict(ranks)}}
    near: Object = {}
    for label, is_required in form.words.affinity:
        term = {"topologyKey": label, **pods}
        if is_required:
            near.setdefault(_REQUIRED, []).append(term)
        else:
            near.setdefault(_PREFERRED, []).append({"weight": 100, "podAffinityTerm": term})
    terms = _node_terms(form)
    apart = {_REQUIRED: [{"topologyKey": HOSTNAME, **pods}]}
    found = {
        "nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}} if terms else {},
        "podAffinity": near,
        "podAntiAffinity": apart if form.alone else {},
    }
    return {name: rules for name, rules in found.items() if rules}


def _node_terms(form: Form) -> list[Object]:
    """Of the terms one has to hold. A node's name is a field, of which a term takes one value; the label
    HOSTNAME can differ from it.
    """
    rules = [
        {"key": label, "operator": "In", "values": list(values)}
        for label, values in form.labels.items()
        if len(values) > 1
    ]
    if form.words.exclude:
        rules.append({"key": HOSTNAME, "operator": "NotIn", "values": list(form.words.exclude)})
    rest: Object = {"matchExpressions": rules} if rules else {}
    names = dict.fromkeys(form.words.only)
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]
    return [{**rest, "matchFields": [each]} for each in fields] or ([rest] if rest else [])


def _spread(form: Form, ranks: Mapping[str, str]) -> list[Object]:
    rule = {
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": dict(ranks)},
    }
    return [{"topologyKey": label, "minDomains": least, **rule} for label, least in form.words.spread]


def _env(environ: Mapping[str, str]) -> list[Object]:
    return [{"name": name, "value": escaped(value)} for name, value in environ.items()]
