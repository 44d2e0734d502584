"""Quotas of a namespace against a job's pods, as the API server applies them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from kubernetes.utils import quantity as quantities

from busbw.launchers.kubernetes_form import Form, Kind
from busbw.model.finding import Finding, Severity

Fields = Mapping[str, Any]

# What pods must name where a quota counts it (resource quota's admission); other entries bind those that do.
_MUST_NAME: Final = (*("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"),)
_LAUNCHER: Final = "launcher"
# Kind of job -> the objects that busbw creates for it, and those that controllers make of it (MPI Operator
# 0.8, JobSet 0.12), as quotas name them. Pods are counted by themselves.
_OBJECTS: Final[Mapping[Kind, tuple[Sequence[str], Sequence[str]]]] = {
    "mpijob": (("mpijobs.kubeflow.org",), ("jobs.batch", "services", "configmaps", "secrets")),
    "job": (("jobs.batch", "services", "secrets"), ()),
    "jobset": (("jobsets.jobset.x-k8s.io", "secrets"), ("jobs.batch", "services")),
}
_DOMAIN: Final = "computedomains.resource.nvidia.com"
_TEMPLATE, _CLAIM = "resourceclaimtemplates.resource.k8s.io", "resourceclaims.resource.k8s.io"


@dataclass(frozen=True)
class _Pods:
    """``count`` pods of a job that are alike; the resources of a container by name."""

    what: str
    count: int
    requests: Mapping[str, str]
    limits: Mapping[str, str]

    def asked(self, entry: str) -> str | None:
        """What each asks of a quota's entry; None where it names nothing of it."""
        if entry in ("pods", "count/pods"):
            return "1"
        own = self.limits if entry.startswith("limits.") else self.requests
        return own.get(entry.removeprefix("requests.").removeprefix("limits."))


def amount_of(text: object) -> Decimal:
    """``500m``, ``32Gi`` and the like as a number."""
    return Decimal(quantities.parse_quantity(text))  # type: ignore[no-untyped-call]


def judge_quota(
    quota: Fields, form: Form, ranges: Sequence[Fields] | None, *, stops: bool
) -> Iterator[Finding]:
    """What a quota would refuse; ``ranges`` are the namespace's LimitRanges, None where they may not be seen.
    ``stops``: nothing is to be measured, so there is nothing to wait for.
    """
    priority = str(form.words.get("priority-class", ""))
    pods = [each for each in _pods(form, ranges or ()) if _applies(quota, each, priority)]
    hard: Fields = quota.get("status", {}).get("hard") or quota.get("spec", {}).get("hard") or {}
    used: Fields = quota.get("status", {}).get("used") or {}
    name = str(quota["metadata"]["name"])
    for entry, allowed in hard.items():
        yield from _unnamed(name, entry, pods, is_sure=ranges is not None)
        yield from _exceeded(name, entry, pods, allowed, used.get(entry, "0"), stops=stops)
    if not (quota.get("spec") or {}).keys() & {"scopes", "scopeSelector"}:  # those are for pods alone
        yield from _too_many(name, form, hard, used, stops=stops)


def _pods(form: Form, ranges: Sequence[Fields]) -> list[_Pods]:
    """The job's, with what LimitRanges give to containers that name nothing."""
    kinds = [_Pods("pods", form.workers, form.resources, form.resources)]
    if form.kind == "mpijob":
        kinds.append(_Pods(_LAUNCHER, 1, form.launcher, {}))
    found = []
    for kind in kinds:
        limits = {**_defaults(ranges, "default"), **kind.limits}
        # A request that is not named is that of the range, else as much as the limit.
        requests = {**limits, **_defaults(ranges, "defaultRequest"), **kind.limits, **kind.requests}
        found.append(_Pods(kind.what, kind.count, requests, limits))
    return found


def _defaults(ranges: Sequence[Fields], key: str) -> dict[str, str]:
    """By resource, of all ranges for containers."""
    rules = (rule for each in ranges for rule in each.get("spec", {}).get("limits") or ())
    return {
        name: str(value)
        for rule in rules
        if rule.get("type") == "Container"
        for name, value in (rule.get(key) or {}).items()
    }


def _applies(quota: Fields, pods: _Pods, priority: str) -> bool:
    """Whether all scopes of a quota hold for pods that have no deadline and this priority class, if any."""
    spec: Fields = quota.get("spec") or {}
    rules: list[Fields] = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    selector: Fields = spec.get("scopeSelector") or {}
    rules += selector.get("matchExpressions") or ()
    return all(_holds(rule, pods, priority) for rule in rules)


def _holds(rule: Fields, pods: _Pods, priority: str) -> bool:
    if rule["scopeName"] == "PriorityClass":
        is_named = bool(priority) and priority in (rule.get("values") or ())
        holds = {"In": is_named, "NotIn": not is_named, "Exists": bool(priority)}
        return holds.get(rule["operator"], not priority)  # DoesNotExist
    names = {*pods.requests, *pods.limits}
    is_best_effort = names.isdisjoint(("cpu", "memory"))
    holds = {"NotTerminating": True, "BestEffort": is_best_effort, "NotBestEffort": not is_best_effort}
    # Of the others Kubernetes takes Exists alone; what is not known does not concern us.
    return holds.get(rule["scopeName"], False)


def _unnamed(name: str, entry: str, pods: Sequence[_Pods], *, is_sure: bool) -> Iterator[Finding]:
    lacking = [each.what for each in pods if each.asked(entry) is None]
    if entry not in _MUST_NAME or not lacking:
        return
    resource = entry.rpartition(".")[2]
    flags = [f"launcher-{resource}" if what == _LAUNCHER else resource for what in lacking]
    hint = f"give {' and '.join(f'--set {flag}=QUANTITY' for flag in flags)}"
    if entry.startswith("limits.") and _LAUNCHER in lacking:  # its limit would be a guess
        hint = (
            "ask for a LimitRange with defaults in the namespace, or give --mpi none: a Job has no launcher"
        )
    yield Finding(
        Severity.ERROR if is_sure else Severity.WARNING,
        f"failed quota: {name}: must specify {entry} for {' and '.join(lacking)}",
        "" if is_sure else "the namespace's LimitRanges, which may give a default, could not be seen",
        hint,
        check="quota",
    )


def _exceeded(
    name: str, entry: str, pods: Sequence[_Pods], allowed: object, used: object, *, stops: bool
) -> Iterator[Finding]:
    asked = [(each, amount_of(text)) for each in pods if (text := each.asked(entry)) is not None]
    most, taken = amount_of(allowed), amount_of(used)
    needed = sum((each.count * amount for each, amount in asked), Decimal(0))
    if needed <= most - taken:
        return
    never = any(amount > most for _, amount in asked)
    counts: dict[Decimal, int] = {}
    for each, amount in asked:
        counts[amount] = counts.get(amount, 0) + each.count
    words = [f"{amount} by each of {count} pods" for amount, count in counts.items() if amount]
    yield Finding(
        # Others may give back what they use; a pod that alone is too large never fits.
        Severity.ERROR if never or stops else Severity.WARNING,
        f"exceeded quota: {name}, requested: {entry}={' and '.join(words)}, used: {used}, limited: {allowed}",
        hint="ask for less (-N, --set gpu=COUNT), or give another --namespace",
        check="quota",
    )


def _too_many(name: str, form: Form, hard: Fields, used: Fields, *, stops: bool) -> Iterator[Finding]:
    """Objects that come into being with the job: what busbw itself cannot create ends the run at once, while
    a controller tries again.
    """
    ours, theirs = _objects(form)
    for resource, count in (ours + theirs).items():
        # Those of the core have an older name, too.
        for entry in (f"count/{resource}", *([] if "." in resource else [resource])):
            taken = amount_of(used.get(entry, "0"))
            if entry not in hard or count <= amount_of(hard[entry]) - taken:
                continue
            lasts = resource in ours or stops or count > amount_of(hard[entry])
            maker = "busbw creates" if resource in ours else f"the controller of a {form.kind} makes"
            yield Finding(
                Severity.ERROR if lasts else Severity.WARNING,
                f"exceeded quota: {name}, requested: {entry}={count}, used: {taken}, limited: {hard[entry]}",
                f"{maker} {resource}",
                "remove what has ended (`busbw clean`), or give another --namespace",
                check="quota",
            )


def _objects(form: Form) -> tuple[Counter[str], Counter[str]]:
    """What busbw creates and what controllers make, by resource."""
    ours, theirs = (Counter(names) for names in _OBJECTS[form.kind])
    if form.brings:
        ours["configmaps"] += 1
    if form.compute_domain is not None:
        ours[_DOMAIN] += 1
        theirs.update({_TEMPLATE: 1, _CLAIM: form.workers})
    return ours, theirs
