"""Before a job is created on Kubernetes: does the cluster have its kind, its nodes, its quota and its secret?

What this user may not see is said, and left to the cluster. Nodes that do not exist may be made on demand, so
too few of them are a warning; what no waiting changes is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from busbw.errors import SiteError
from busbw.launchers.before import not_asked
from busbw.launchers.engine import Job, JobRequest
from busbw.launchers.kubernetes_api import JOBS, RESOURCES, Api, Denied, NotFound, Resource
from busbw.launchers.kubernetes_form import HOSTNAME, Form, read_form
from busbw.launchers.kubernetes_quota import amount_of, judge_quota
from busbw.model.finding import Finding, Severity

Fields = Mapping[str, Any]

_QUOTA: Final = Resource("ResourceQuota", "", "v1", "resourcequotas")
_RANGE: Final = Resource("LimitRange", "", "v1", "limitranges")
_DOMAIN: Final = RESOURCES["ComputeDomain"]
_SECRET: Final = Resource("Secret", "", "v1", "secrets")
_ACCOUNT: Final = Resource("ServiceAccount", "", "v1", "serviceaccounts")
_NODES: Final = "/api/v1/nodes"
_OPERATOR_HINT: Final = {
    "mpijob": "install the MPI Operator (v2beta1), or give --mpi none: an indexed Job needs nothing",
    "jobset": "install JobSet, or give --set kind=job: an indexed Job needs nothing",
}


@dataclass(frozen=True)
class Cluster:
    """What was read; None where this user may not. ``versions`` are those of the job's API group, and
    ``kinds`` the kinds of the version that is used; ``absent`` names objects that the job refers to;
    ``ranges`` are the namespace's LimitRanges, and ``domains`` says whether there are ComputeDomains.
    """

    versions: tuple[str, ...] | None
    kinds: tuple[str, ...]
    quotas: Sequence[Fields] | None
    nodes: Sequence[Fields] | None
    absent: tuple[str, ...] = ()
    ranges: Sequence[Fields] | None = ()
    domains: bool | None = True


def look(job: Job, request: JobRequest) -> tuple[Finding, ...]:
    """Read what the job needs of the cluster, and judge it. Raises SiteError where no server answers."""
    form = read_form(job)
    api = Api(request.details["context"], request.details["namespace"])
    cluster = read_cluster(api, form)
    stops = any(word.startswith("--stop-after") for word in job.work.words)
    return tuple(judge(cluster, form, api.namespace, stops=stops))


def read_cluster(api: Api, form: Form) -> Cluster:
    """A handful of requests."""
    resource = JOBS[form.kind]
    versions, kinds = _served(api, resource)
    domains = None
    if form.compute_domain is not None:
        known, own = _served(api, _DOMAIN)
        domains = None if known is None else _DOMAIN.kind in own
    return Cluster(
        versions=versions,
        kinds=kinds,
        quotas=_items(api, _QUOTA.path(api.namespace)),
        nodes=_items(api, _NODES),
        absent=tuple(_absent(api, form)),
        ranges=_items(api, _RANGE.path(api.namespace)),
        domains=domains,
    )


def _served(api: Api, resource: Resource) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    try:
        group = api.get(f"/apis/{resource.group}")
        versions = tuple(str(each["version"]) for each in group.get("versions") or ())
        if resource.version not in versions:
            return versions, ()
        served = api.get(f"/apis/{resource.group}/{resource.version}")
    except NotFound:
        return (), ()
    except Denied as error:
        if "(401" in error.message:  # it does not know who asks, so nothing else will go well
            raise
        return None, ()
    return versions, tuple(str(each["kind"]) for each in served.get("resources") or ())


def _items(api: Api, path: str) -> list[Fields] | None:
    try:
        return list(api.get(path).get("items") or ())
    except Denied:
        return None


def _absent(api: Api, form: Form) -> Iterator[str]:
    secrets = [(_SECRET, each["name"], "pull-secret") for each in form.words.get("pull-secret", ())]
    account = form.words.get("service-account", "")
    for resource, name, flag in (*secrets, *([(_ACCOUNT, account, "service-account")] if account else ())):
        try:
            api.get(resource.path(api.namespace, name))
        except NotFound:
            yield f"{flag}={name}"
        except SiteError:
            continue  # not every user may read secrets


# ---- judgement ---------------------------------------------------------------------------------------


def judge(cluster: Cluster, form: Form, namespace: str, *, stops: bool) -> Iterator[Finding]:
    """All findings. Pure; ``stops``: nothing is to be measured, so there is nothing to wait for."""
    yield from _operator(cluster, form)
    for word in cluster.absent:
        yield Finding(
            Severity.ERROR,
            f"--set {word}: there is no such object in namespace {namespace}",
            hint="create it there, or leave it out",
            check="referenced-objects",
        )
    if form.compute_domain is not None and cluster.domains is False:
        yield Finding(
            Severity.ERROR,
            f"the cluster has no {_DOMAIN.kind}s ({_DOMAIN.group}/{_DOMAIN.version})",
            "--set compute-domain asks for one",
            "install NVIDIA's DRA driver, or drop it: --set compute-domain=",
            check="compute-domain",
        )
    if cluster.quotas is None:
        yield not_asked("the namespace's quota")
    for quota in cluster.quotas or ():
        yield from judge_quota(quota, form, cluster.ranges, stops=stops)
    yield from _nodes(cluster, form)


def _operator(cluster: Cluster, form: Form) -> Iterator[Finding]:
    resource = JOBS[form.kind]
    if cluster.versions is None or resource.kind in cluster.kinds:
        return
    served = f"of {resource.group} it has {', '.join(cluster.versions)} only" if cluster.versions else ""
    yield Finding(
        Severity.ERROR,
        f"the cluster has no {resource.kind}s ({resource.group}/{resource.version})",
        served,
        _OPERATOR_HINT.get(form.kind, ""),
        check="operator",
    )


def _nodes(cluster: Cluster, form: Form) -> Iterator[Finding]:
    if cluster.nodes is None:
        yield not_asked("what the nodes offer")
        return
    wanted = {name: (value,) for name, value in form.selector.items()} | dict(form.choices)
    excluded = {HOSTNAME: form.excluded}
    matching = [
        node
        for node in cluster.nodes
        if _is_usable(node)
        and _matches(node, wanted)
        and not _matches(node, excluded)
        and (not form.only or node["metadata"]["name"] in form.only)
    ]
    labels = ", ".join(f"{name}={'|'.join(values)}" for name, values in wanted.items())
    where = (
        (f" with {labels}" if labels else "")
        + (f" of {', '.join(form.only)}" if form.only else "")
        + (f" other than {', '.join(form.excluded)}" if form.excluded else "")
    )
    if form.alone and len(matching) < form.workers:
        yield Finding(
            Severity.WARNING,
            f"{len(matching)} of {len(cluster.nodes)} nodes can be used{where}, {form.workers} are asked for",
            hint="correct --set select and instance-type, or let the cluster add nodes",
            check="nodes",
        )
    needed = min(form.workers, len(matching)) if form.alone else min(1, len(matching))
    for name, quantity in form.resources.items():
        offering = [node for node in matching if _offers(node, name, amount_of(quantity))]
        if len(offering) >= needed:
            continue
        some = [_amount(node, name) for node in matching if _amount(node, name)]
        yield Finding(
            Severity.WARNING,
            f"{len(offering)} of {len(matching)} nodes{where} offer {name}={quantity}, {form.workers} are"
            " asked for",
            f"the most that a node offers is {max(some)}" if some else "no node offers any",
            "ask for less" if some else f"look whether the device plugin of {name} runs on the nodes",
            check="allocatable",
        )


def _is_usable(node: Fields) -> bool:
    ready = [each for each in node.get("status", {}).get("conditions") or () if each.get("type") == "Ready"]
    return not node.get("spec", {}).get("unschedulable") and all(
        each.get("status") == "True" for each in ready
    )


def _matches(node: Fields, wanted: Mapping[str, tuple[str, ...]]) -> bool:
    labels = node["metadata"].get("labels") or {}
    return all(labels.get(name) in values for name, values in wanted.items())


def _offers(node: Fields, name: str, quantity: Decimal) -> bool:
    return _amount(node, name) >= quantity


def _amount(node: Fields, name: str) -> Decimal:
    return amount_of((node.get("status", {}).get("allocatable") or {}).get(name, "0"))
