"""The objects that a job on Kubernetes is made of: MPIJob v2beta1, indexed Job or JobSet. Pure.

Kubernetes replaces ``$(NAME)`` in a container's words and values; every ``$`` is written twice, which it
turns back into one, so that what the user wrote arrives as it was.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final

from busbw.launchers import command, topology_kubernetes
from busbw.launchers.engine import Job
from busbw.launchers.kubernetes_form import HOSTNAME, Form
from busbw.launchers.kubernetes_words import Part, place_words
from busbw.launchers.topology import RankOrder
from busbw.probes.place import POD_VARIABLES

Object = dict[str, Any]

JOB_FILE: Final = "job.yaml"
TOKEN_KEY: Final = "token"
BUNDLE_KEY: Final = "busbw.tar.gz"
# A JobSet's only group of pods.
_GROUP: Final = "ranks"
# Pods of one job can start minutes apart, while an image is pulled.
_CONNECT_SECONDS: Final = 600
# Time for a rank's last words.
_GRACE_SECONDS: Final = 10
# Ended pods keep their logs, which carry the record, until somebody attaches.
_KEEP: Final = {"ttlSecondsAfterFinished": 7 * 24 * 3600}
_SSH_PORT: Final = 22
# The keys of pods are new every time, and the cluster's network is what one trusts already.
_SSH_OPTIONS: Final = (
    "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    " -o ConnectTimeout=10 -o ConnectionAttempts=10"
)
# What a pod knows of itself, for the record: variable -> field of the pod.
_POD_FIELDS: Final[Mapping[str, str]] = {
    POD_VARIABLES["pod"]: "metadata.name",
    POD_VARIABLES["pod_namespace"]: "metadata.namespace",
    POD_VARIABLES["kubernetes_node"]: "spec.nodeName",
}
# sshd gives its sessions none of the container's variables (SetEnv: OpenSSH 7.8 and later).
_SSHD: Final = (
    "mkdir -p /run/sshd && ssh-keygen -A && exec /usr/sbin/sshd -De -o UsePAM=no -o StrictModes=no"
    f' -o Port={_SSH_PORT} -o "SetEnv {" ".join(f"{name}=${name}" for name in _POD_FIELDS)}"'
)
_CLAIM: Final = "compute-domain-channel"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
# The operator writes it: a line a worker, with its slots.
_HOSTFILE: Final = "/etc/mpi/hostfile"
_EVEN_HOSTFILE: Final = "/tmp/busbw-even-hostfile"
_FIRST_HOSTFILE: Final = "/tmp/busbw-first-hostfile"
# Open MPI and hydra fill one worker's slots after the other: the last workers would have no rank.
_SPREAD: Final = """\
busbw_number=0
while read -r busbw_worker; do
  busbw_count={least}
  if [ "$busbw_number" -lt {more} ]; then busbw_count=$((busbw_count + 1)); fi
  echo "${{busbw_worker%%[: ]*}}{slots}$busbw_count"
  busbw_number=$((busbw_number + 1))
done <{hostfile} >{even}
"""
# What the ranks of an Open MPI job need of their image's environment; hydra passes all of it.
_PASSED: Final = ("PATH", "LD_LIBRARY_PATH")


def object_name(job: Job) -> str:
    """The job's name as Kubernetes allows it."""
    return job.name.replace("_", "-")


def labels(name: str) -> Mapping[str, str]:
    """The labels of everything that belongs to one job."""
    return {"app.kubernetes.io/name": "busbw", "app.kubernetes.io/instance": name}


def documents(job: Job, form: Form, namespace: str, rank_order: RankOrder | None = None) -> list[Object]:
    """The objects to create, in order; the last is the job, which owns the others. ``rank_order`` is of nodes
    (MPIJob only).
    """
    name = object_name(job)
    if form.kind == "mpijob":
        objects = [_mpi_job(name, job, form, rank_order)]
    elif form.kind == "jobset":
        objects = [_job_set(name, job, form)]
    else:
        objects = [_service(name), _indexed_job(name, job, form)]
    place_words(form.words, (Part.JOB,), objects[-1])
    if form.compute_domain is not None:
        objects.insert(0, _compute_domain(name, form.compute_domain))
    for one in objects:
        one["metadata"]["namespace"] = namespace
    return objects


def secret(name: str, token: str) -> Object:
    """What the ranks of a world without MPI prove that they belong together by."""
    return _object("v1", "Secret", name, stringData={TOKEN_KEY: token})


def bundle(name: str, packed_base64: str) -> Object:
    """What --bring brings, for an image that lacks it."""
    return _object("v1", "ConfigMap", name, binaryData={BUNDLE_KEY: packed_base64})


def escaped(text: str) -> str:
    """``text`` as a container's word or value that Kubernetes leaves as it was."""
    return text.replace("$", "$$")


def unescaped(text: str) -> str:
    """The inverse of ``escaped``."""
    return text.replace("$$", "$")


def on_first_workers(script: str, count: int) -> str:
    """An MPIJob's launch script that starts ranks on its first ``count`` workers only."""
    return f"head -n {count} {_HOSTFILE} >{_FIRST_HOSTFILE}\n{script.replace(_HOSTFILE, _FIRST_HOSTFILE)}"


def _object(version: str, kind: str, name: str, **fields: object) -> Object:
    metadata = {"name": name, "labels": dict(labels(name))}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def _compute_domain(name: str, nodes: int) -> Object:
    """Memory of the job's nodes over NVLink. NVIDIA's DRA driver makes the template of the claims from it."""
    spec = {"numNodes": nodes, "channel": {"resourceClaimTemplate": {"name": _channel(name)}}}
    return _object("resource.nvidia.com/v1beta1", "ComputeDomain", name, spec=spec)


def _channel(name: str) -> str:
    return f"{name}-channel"


def _mpi_job(name: str, job: Job, form: Form, rank_order: RankOrder | None) -> Object:
    policy: Object = {"backoffLimit": 0, "cleanPodPolicy": "Running", **_KEEP}
    if form.deadline_seconds is not None:
        policy["activeDeadlineSeconds"] = form.deadline_seconds
    launcher: Object = {
        "name": "launcher",
        "image": form.image,
        "command": ["/bin/sh", "-c", escaped(_launch_script(job, form, rank_order)), "busbw"],
        "args": [escaped(word) for word in _words(job)],
        "env": [*_env(_launcher_environ(job, form)), _field("POD_IP", "status.podIP")],
    }
    if form.launcher:
        launcher["resources"] = {"requests": dict(form.launcher)}
    worker = {
        "name": "worker",
        "image": form.image,
        "command": ["/bin/sh", "-c", escaped(_SSHD)],
        "env": _pod_env(),
        "ports": [{"name": "ssh", "containerPort": _SSH_PORT}],
        "readinessProbe": {"tcpSocket": {"port": _SSH_PORT}, "periodSeconds": 1},
    }
    specs = {
        "Launcher": _replicas(1, _template(name, job, form, launcher, measures=False)),
        "Worker": _replicas(form.workers, _template(name, job, form, worker, measures=True)),
    }
    return _object(
        "kubeflow.org/v2beta1",
        "MPIJob",
        name,
        spec={
            "slotsPerWorker": form.slots,
            "mpiImplementation": "OpenMPI" if form.mpi == "openmpi" else "MPICH",
            "launcherCreationPolicy": "WaitForWorkersReady",
            "runPolicy": policy,
            "mpiReplicaSpecs": specs,
        },
    )


def _replicas(count: int, template: Object) -> Object:
    return {"replicas": count, "restartPolicy": "Never", "template": template}


def _words(job: Job) -> tuple[str, ...]:
    return ("-m", "busbw", *job.work.words) if job.work.is_busbw else command.entered(job.work.words)


def _launch_script(job: Job, form: Form, rank_order: RankOrder | None) -> str:
    """The launcher pod's shell text. Programs get absolute paths: a worker's sshd knows none of the image's
    PATH, and Open MPI finds its own files on the workers by the path that it was started with. Its variables
    are called busbw_*: the container has the user's too, and what the ranks get of those must be as it was.
    """
    lines = [
        'find() { command -v "$1" || { echo "busbw: no $1 in the image" >&2; exit 127; }; }',
        "busbw_mpirun=$(find mpirun) || exit",
    ]
    rank = [*map(shlex.quote, command.prepending(job.prepend)), '"$@"']
    if job.work.is_busbw:
        lines.append(f"busbw_python=$(find {shlex.quote(form.python)}) || exit")
        rank.insert(-1, '"$busbw_python"')
    hostfile = _HOSTFILE
    if rank_order is not None:
        hostfile = topology_kubernetes.HOSTFILE
        asked = {"hostfile": _HOSTFILE, "ssh_options": _SSH_OPTIONS}
        variable = POD_VARIABLES["kubernetes_node"]
        lines += topology_kubernetes.script(rank_order, node_variable=variable, **asked)
    if not job.work.is_busbw:
        hosts = f"sed 's/ slots=/:/' {hostfile} | paste -sd, -"
        lines.append(f"{command.HOSTS}=$({hosts}) && export {command.HOSTS}")
    if form.ranks < form.workers * form.slots:
        lines += _spreading(form, hostfile)
        hostfile = _EVEN_HOSTFILE
    words = [f"-n {form.ranks}"]
    if form.mpi == "openmpi":
        names = ("OMPI_MCA_plm_rsh_args", "PRTE_MCA_plm_ssh_args")  # of Open MPI 4 and 5
        lines += [f"export {name}={shlex.quote(_SSH_OPTIONS)}" for name in names]
        words += [f"--hostfile {hostfile}", "--bind-to none", *_exports(job)]
    else:
        # The operator sets the first; hydra (4.0, 5.0) reads the second.
        names = ("HYDRA_LAUNCH_EXTRA_ARGS", "HYDRA_LAUNCHER_EXTRA_ARGS")
        lines += [f"export {name}={shlex.quote(_SSH_OPTIONS)}" for name in names]
        # The proxies call back: to the address, as the name may be known later than the pod runs.
        words += [f"-f {hostfile}", "-launcher ssh", '-localhost "$POD_IP"']
    words += [shlex.quote(word) for word in form.mpirun_words]
    lines.append(f'exec "$busbw_mpirun" {" ".join((*words, *rank))}')
    return "\n".join((*lines, ""))


def _spreading(form: Form, hostfile: str) -> list[str]:
    """Lines that write a host file with as many slots as there are ranks, evenly, the first getting more."""
    least, more = divmod(form.ranks, form.workers)
    slots = " slots=" if form.mpi == "openmpi" else ":"
    text = _SPREAD.format(least=least, more=more, slots=slots, hostfile=hostfile, even=_EVEN_HOSTFILE)
    return text.splitlines()


def _exports(job: Job) -> list[str]:
    image = [f"${{{name}+-x {name}}}" for name in _PASSED]
    names = [*([] if job.work.is_busbw else [command.HOSTS]), *_rank_environ(job)]
    return image + [f"-x {shlex.quote(name)}" for name in names]


def _rank_environ(job: Job) -> Mapping[str, str]:
    """The variables that each rank gets."""
    environ = dict(job.environ)
    if job.launch.bring:
        own = environ.get("PYTHONPATH", "")
        environ["PYTHONPATH"] = f"/busbw:{own}" if own else "/busbw"
    return environ


def _launcher_environ(job: Job, form: Form) -> Mapping[str, str]:
    if form.mpi != "openmpi":
        return _rank_environ(job)
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    # Open MPI 5 has other names than 4 for what the operator sets: workers are known by their full names.
    return {**root, "PRTE_MCA_prte_keep_fqdn_hostnames": "true", **_rank_environ(job)}


def _service(name: str) -> Object:
    """Gives rank 0's pod a name that the others know before it runs."""
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"batch.kubernetes.io/job-name": name},
    }
    return _object("v1", "Service", name, spec=spec)


def _indexed_job(name: str, job: Job, form: Form) -> Object:
    spec = _job_spec(name, job, form, [f"{name}-{number}.{name}" for number in range(form.workers)])
    spec["template"]["spec"]["subdomain"] = name
    return _object("batch/v1", "Job", name, spec={**spec, **_KEEP})


def _job_set(name: str, job: Job, form: Form) -> Object:
    hosts = [f"{name}-{_GROUP}-0-{number}.{name}" for number in range(form.workers)]
    template = {"spec": _job_spec(name, job, form, hosts)}
    spec = {
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "failurePolicy": {"maxRestarts": 0},
        **_KEEP,
        "replicatedJobs": [{"name": _GROUP, "replicas": 1, "template": template}],
    }
    return _object("jobset.x-k8s.io/v1alpha2", "JobSet", name, spec=spec)


def _job_spec(name: str, job: Job, form: Form, hosts: list[str]) -> Object:
    """One pod a worker, numbered; the pod's number makes its ranks' numbers."""
    argv = job.argv(form.python)
    told = {}
    if not job.work.is_busbw:
        argv = command.entered(argv, "$JOB_COMPLETION_INDEX")
        told = {command.HOSTS: command.host_list(dict.fromkeys(hosts, form.gpus or form.slots))}
    if form.slots > 1:
        starter = (form.python, "-m", "busbw.launchers.kubernetes_pod", str(form.slots))
        argv = (*starter, *argv)
    environ = {
        "BUSBW_WORLD_SIZE": str(form.ranks),
        "BUSBW_ROOT": hosts[0],
        "BUSBW_CONNECT_TIMEOUT": str(_CONNECT_SECONDS),
        **told,
        **_rank_environ(job),
    }
    # Optional: what --dry-run prints works alone too, though anybody in the cluster could join its ranks.
    token = {"secretKeyRef": {"name": name, "key": TOKEN_KEY, "optional": True}}
    container = {
        "name": "rank",
        "image": form.image,
        "command": [escaped(word) for word in argv],
        "env": [*_env(environ), {"name": "BUSBW_TOKEN", "valueFrom": token}, *_pod_env()],
    }
    template = _template(name, job, form, container, measures=True)
    template["spec"]["restartPolicy"] = "Never"
    spec: Object = {
        "completionMode": "Indexed",
        "completions": form.workers,
        "parallelism": form.workers,
        "backoffLimit": 0,
        "template": template,
    }
    if form.deadline_seconds is not None:
        spec["activeDeadlineSeconds"] = form.deadline_seconds
    return spec


def _template(name: str, job: Job, form: Form, container: Object, *, measures: bool) -> Object:
    """A pod. One that measures has the resources, the node and the shared memory that were asked for."""
    spec: Object = {
        "containers": [container],
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
    }
    pod_labels = dict(labels(name))
    annotations: Object = {}
    if job.launch.bring:
        _bring(spec, name, form)
    if measures:
        pod_labels["app.kubernetes.io/component"] = "ranks"
        _ask_for(spec, name, form)
        _place(spec, pod_labels, form)
        _share_memory(spec, form)
        if form.networks:  # Multus attaches them (k8snetworkplumbingwg, de facto standard v1.3)
            annotations["k8s.v1.cni.cncf.io/networks"] = ",".join(form.networks)
    metadata = {"labels": pod_labels, **({"annotations": annotations} if annotations else {})}
    template: Object = {"metadata": metadata, "spec": spec}
    place_words(form.words, (Part.PODS, Part.RANKS) if measures else (Part.PODS,), template)
    return template


def _ask_for(spec: Object, name: str, form: Form) -> None:
    """Resources of the node, and the claim of an NVLink domain's channel."""
    container = spec["containers"][0]
    if form.resources:
        container["resources"] = {"limits": dict(form.resources), "requests": dict(form.resources)}
    if form.compute_domain is not None:
        container.setdefault("resources", {})["claims"] = [{"name": _CLAIM}]
        spec["resourceClaims"] = [{"name": _CLAIM, "resourceClaimTemplateName": _channel(name)}]
    if form.gpus:  # nodes with GPUs usually refuse other pods
        names = (name for name in form.resources if name.endswith("/gpu"))
        spec["tolerations"] = [{"key": name, "operator": "Exists"} for name in names]


def _place(spec: Object, pod_labels: Mapping[str, str], form: Form) -> None:
    """Which nodes: by their labels, and by where the job's other pods are."""
    pods = {"labelSelector": {"matchLabels": dict(pod_labels)}}
    if form.selector:
        spec["nodeSelector"] = dict(form.selector)
    affinity: Object = {}
    terms = [
        {"key": label, "operator": "In", "values": list(values)} for label, values in form.choices.items()
    ]
    if form.excluded:
        terms.append({"key": HOSTNAME, "operator": "NotIn", "values": list(form.excluded)})
    if terms or form.only:
        affinity["nodeAffinity"] = {_REQUIRED: {"nodeSelectorTerms": _node_terms(terms, form.only)}}
    near: Object = {}
    for each in form.affinity:
        term = {"topologyKey": each.label, **pods}
        if each.required:
            near.setdefault(_REQUIRED, []).append(term)
        else:
            near.setdefault(_PREFERRED, []).append({"weight": 100, "podAffinityTerm": term})
    if near:
        affinity["podAffinity"] = near
    if form.alone:
        affinity["podAntiAffinity"] = {_REQUIRED: [{"topologyKey": HOSTNAME, **pods}]}
    if affinity:
        spec["affinity"] = affinity
    if form.spread:
        rule = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **pods}
        spec["topologySpreadConstraints"] = [
            {"topologyKey": label, "minDomains": least, **rule} for label, least in form.spread
        ]


def _node_terms(expressions: list[Object], only: tuple[str, ...]) -> list[Object]:
    """Of the terms one has to hold. A node's name is a field, of which a term takes one value; the label
    HOSTNAME can differ from it.
    """
    rest: Object = {"matchExpressions": expressions} if expressions else {}
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in only]
    return [{**rest, "matchFields": [field]} for field in fields] or [rest]


def _share_memory(spec: Object, form: Form) -> None:
    """/dev/shm, which is 64 MiB otherwise, and the host's folders."""
    memory: Object = {"medium": "Memory"}
    if form.shm:
        memory["sizeLimit"] = form.shm
    _add_volume(spec, {"name": "shm", "emptyDir": memory}, "/dev/shm")
    for number, mount in enumerate(form.mounts):
        volume = {"name": f"mount-{number}", "hostPath": {"path": mount.source}}
        _add_volume(spec, volume, mount.target, read_only=mount.read_only)


def _bring(spec: Object, name: str, form: Form) -> None:
    unpack = {
        "name": "bring",
        "image": form.image,
        "command": [escaped(form.python), "-m", "tarfile", "-e", f"/busbw-bundle/{BUNDLE_KEY}", "/busbw"],
        "volumeMounts": [
            {"name": "busbw-bundle", "mountPath": "/busbw-bundle"},
            {"name": "busbw", "mountPath": "/busbw"},
        ],
    }
    spec["initContainers"] = [unpack]
    spec["volumes"] = [{"name": "busbw-bundle", "configMap": {"name": name}}]
    _add_volume(spec, {"name": "busbw", "emptyDir": {}}, "/busbw")


def _add_volume(spec: Object, volume: Object, path: str, *, read_only: bool = False) -> None:
    spec.setdefault("volumes", []).append(volume)
    mount = {"name": volume["name"], "mountPath": path, **({"readOnly": True} if read_only else {})}
    spec["containers"][0].setdefault("volumeMounts", []).append(mount)


def _env(environ: Mapping[str, str]) -> list[Object]:
    return [{"name": name, "value": escaped(value)} for name, value in environ.items()]


def _pod_env() -> list[Object]:
    return [_field(name, path) for name, path in _POD_FIELDS.items()]


def _field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
