"""The objects that a job on Kubernetes is made of: MPIJob v2beta1, indexed Job or JobSet. Pure.

templates/ has a manifest of each kind; this file has the values for it. Kubernetes replaces ``$(NAME)`` in a
container's words and values; every ``$`` is written twice, which it turns back into one, so that what the
user wrote arrives as it was.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from importlib import resources
from typing import Any, Final

from busbw.errors import UsageError
from busbw.launch import command
from busbw.launch.base import Command
from busbw.launch.engine import Job
from busbw.launch.kubernetes.form import HOSTNAME, Form
from busbw.launch.kubernetes.yaml import fill, from_yaml, merged
from busbw.launch.topology.order import RankOrder
from busbw.machine.place import POD_VARIABLES

Object = dict[str, Any]

JOB_FILE: Final = "job.yaml"
_BUNDLE_KEY: Final = "busbw.tar.gz"
# A detail of the request -> the object that has it.
_UNWRITTEN: Final = (
    ("bundle", "ConfigMap", "binaryData", _BUNDLE_KEY),
    ("token", "Secret", "stringData", "token"),
)
_KEEP_SECONDS: Final = 7 * 24 * 3600
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

# The keys of pods are new every time, and the cluster's network is what one trusts already.
_SSH_OPTIONS: Final = (
    "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    " -o ConnectTimeout=10 -o ConnectionAttempts=10"
)
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
done <{hostfile} >/tmp/busbw-even-hostfile
"""
_FIND: Final = """\
find() { command -v "$1" || { echo "busbw: no $1 in the image" >&2; exit 127; }; }
busbw_mpirun=$(find mpirun) || exit
"""
# What the ranks of an Open MPI job need of their image's environment; hydra passes all of it.
_PASSED: Final = ("PATH", "LD_LIBRARY_PATH")
_OPEN_MPI: Final[Mapping[str, str]] = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    # Open MPI 5 has other names than 4 for what the operator sets: workers are known by their full names.
    "PRTE_MCA_prte_keep_fqdn_hostnames": "true",
}

# --topology: the launcher puts the workers into the order that was known before. The scheduler chooses the
# nodes, so each worker is asked for its own over ssh; MPI then takes the workers as they stand in its host
# file. Pods of a Job or JobSet have their numbers before they have nodes.
# Linux takes no longer argument (MAX_ARG_STRLEN), and the script is one.
_MOST_CHARACTERS: Final = 100_000
_ORDERED_HOSTFILE: Final = "/tmp/busbw-hostfile"

_ORDER: Final = """\
# --topology: workers at one switch follow each other; those on nodes that it does not know come last.
busbw_nodes=$(mktemp -d)
ask() {{
  busbw_node=$(ssh {options} "${{1%%[: ]*}}" 'printf %s "${node_variable}"' </dev/null)
  printf '%s\\n' "$1" >>"$busbw_nodes/${{busbw_node:-of no known name}}"
}}
busbw_asked=0
while read -r busbw_worker; do
  ask "$busbw_worker" &
  busbw_asked=$((busbw_asked + 1))
  if [ $((busbw_asked % 32)) -eq 0 ]; then wait; fi
done <{hostfile}
wait
for busbw_node in {known}; do
  if [ -e "$busbw_nodes/$busbw_node" ]; then cat "$busbw_nodes/$busbw_node"; rm "$busbw_nodes/$busbw_node"; fi
done >{ordered}
for busbw_node in "$busbw_nodes"/*; do
  if [ -e "$busbw_node" ]; then
    echo "busbw: node ${{busbw_node##*/}} is not in the topology, so its ranks are last" >&2
    cat "$busbw_node" >>{ordered}
  fi
done
"""


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


def unwritten(name: str, details: Mapping[str, str]) -> list[Object]:
    """What no file has of a job: the files that --bring brings for an image that lacks them, and what the
    ranks of a world without MPI prove that they belong together by.
    """
    metadata = {"name": name, "labels": dict(labels(name))}
    return [
        {"apiVersion": "v1", "kind": kind, "metadata": metadata, field: {key: details[detail]}}
        for detail, kind, field, key in _UNWRITTEN
        if detail in details
    ]


def escaped(text: str) -> str:
    """``text`` as a container's word or value that Kubernetes leaves as it was."""
    return text.replace("$", "$$")


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
        "command": [escaped(form.python), "-m", "tarfile", "-e", f"/busbw-bundle/{_BUNDLE_KEY}", "/busbw"],
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
    words, launched = form.words, launcher(job, form, rank_order)
    requests = {"cpu": words.launcher_cpu, "memory": words.launcher_memory}
    return {
        "slots": form.slots,
        "mpi implementation": "OpenMPI" if form.mpi == "openmpi" else "MPICH",
        "launcher command": [escaped(word) for word in launched.argv[:4]],
        "launcher words": [escaped(word) for word in launched.argv[4:]],
        "launcher env": _env(launched.environ),
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
    environ = _rank_environ(job)
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


# ---- an MPIJob's launcher ------------------------------------------------------------------------------


def launcher(job: Job, form: Form, rank_order: RankOrder | None, *, of_workers: int = 0) -> Command:
    """What the launcher's pod executes: shell text that starts the ranks with the image's mpirun, on the
    first of ``of_workers`` where the job has fewer. Raises UsageError.

    Programs get absolute paths: a worker's sshd knows none of the image's PATH, and Open MPI finds its own
    files on the workers by the path that it was started with. The text's variables are called busbw_*: the
    container has the user's too, and what the ranks get of those must be as it was.
    """
    is_ours, hostfile, lines = job.work.is_busbw, _HOSTFILE, list[str]()
    if form.workers < of_workers:
        hostfile = _FIRST_HOSTFILE
        lines.append(f"head -n {form.workers} {_HOSTFILE} >{hostfile}\n")
    lines.append(_FIND)
    if is_ours:
        lines.append(f"busbw_python=$(find {shlex.quote(form.python)}) || exit\n")
    if rank_order is not None:
        lines.append(_ordering(rank_order, hostfile))
        hostfile = _ORDERED_HOSTFILE
    if not is_ours:
        hosts = f"sed 's/ slots=/:/' {hostfile} | paste -sd, -"
        lines.append(f"{command.HOSTS}=$({hosts}) && export {command.HOSTS}\n")
    if form.ranks < form.workers * form.slots:
        least, more = divmod(form.ranks, form.workers)
        slots = " slots=" if form.mpi == "openmpi" else ":"
        lines.append(_SPREAD.format(least=least, more=more, slots=slots, hostfile=hostfile))
        hostfile = _EVEN_HOSTFILE
    words, environ = _mpirun(job, form, hostfile)
    rank = [*map(shlex.quote, command.prepending(job.prepend)), *(['"$busbw_python"'] if is_ours else [])]
    lines.append(" ".join((words, *rank, '"$@"\n')))
    behind = ("-m", "busbw", *job.work.words) if is_ours else command.entered(job.work.words)
    return Command(("/bin/sh", "-c", "".join(lines), "busbw", *behind), environ)


def _mpirun(job: Job, form: Form, hostfile: str) -> tuple[str, dict[str, str]]:
    """The last lines of the launcher's script, up to the words of a rank, and its variables; its ranks get
    theirs from it.
    """
    environ = _rank_environ(job)
    if form.mpi == "openmpi":
        ssh = ("OMPI_MCA_plm_rsh_args", "PRTE_MCA_plm_ssh_args")  # of Open MPI 4 and 5
        passed = [f"${{{name}+-x {name}}}" for name in _PASSED]
        own = [] if job.work.is_busbw else [command.HOSTS]
        passed += [f"-x {shlex.quote(name)}" for name in (*own, *environ)]
        words = [f"--hostfile {hostfile}", "--bind-to none", *passed]
        environ = {**_OPEN_MPI, **environ}
    else:
        # The operator sets the first; hydra (4.0, 5.0) reads the second.
        ssh = ("HYDRA_LAUNCH_EXTRA_ARGS", "HYDRA_LAUNCHER_EXTRA_ARGS")
        # The proxies call back: to the address, as the name may be known later than the pod runs.
        words = [f"-f {hostfile}", "-launcher ssh", '-localhost "$POD_IP"']
    exports = "".join(f"export {name}={shlex.quote(_SSH_OPTIONS)}\n" for name in ssh)
    words = [f"-n {form.ranks}", *words, *map(shlex.quote, form.mpirun_words)]
    return f'{exports}exec "$busbw_mpirun" {" ".join(words)}', environ


def _rank_environ(job: Job) -> dict[str, str]:
    """The variables that each rank gets."""
    environ = dict(job.environ)
    if job.launch.bring:
        own = environ.get("PYTHONPATH", "")
        environ["PYTHONPATH"] = f"/busbw:{own}" if own else "/busbw"
    return environ


def _ordering(found: RankOrder, hostfile: str) -> str:
    """The part of the launcher's script that orders ``hostfile``. Raises UsageError for too many nodes."""
    known = shlex.join(found.hosts)
    if len(known) > _MOST_CHARACTERS:
        raise UsageError(
            f"--topology names {len(found.hosts)} hosts, more than a manifest holds",
            hint="give a file with the part of the cluster that the job runs on",
        )
    return _ORDER.format(
        options=_SSH_OPTIONS,
        node_variable=POD_VARIABLES["kubernetes_node"],
        hostfile=hostfile,
        known=known,
        ordered=_ORDERED_HOSTFILE,
    )
