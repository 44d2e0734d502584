"""Nodes that the next job is to leave out, in the words of Slurm and Kubernetes: slow ones and lost ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

LOST: Final = "lost"  # the check of a finding on a host that died or hung
_HINT: Final = (
    "take it out of service; until then --exclude={node} in Slurm, kubernetes.io/hostname NotIn [{node}]"
    " in Kubernetes"
)


def excluding(slurm: Sequence[str], kubernetes: Sequence[str]) -> dict[str, Any]:
    """By the names that each of them has for the nodes."""
    match = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": list(kubernetes)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [match]}]}
    return {
        "slurm": f"--exclude={','.join(slurm)}",
        "kubernetes": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
    }


def hint_of_lost(node: str) -> str:
    """The same flag and term, of a host that the verdict of the others does not know."""
    return _HINT.format(node=node)


def lost_nodes(findings: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """By the engine's name for them; the record of the others has no place of theirs."""
    nodes = (str(each.get("node", "")) for each in findings if each["check"] == LOST)
    return tuple(dict.fromkeys(filter(None, nodes)))


def with_lost(hunt: Mapping[str, Any], findings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The verdict of a hunt whose last field, that of the hosts, leaves lost hosts out as well; once."""
    lost = lost_nodes(findings)
    if not lost or not hunt.get("fields"):
        return dict(hunt)
    *others, last = hunt["fields"]
    slurm, kubernetes = _names(last["exclude"])
    exclude = excluding(
        [*slurm, *(node for node in lost if node not in slurm)],
        [*kubernetes, *(node for node in lost if node not in kubernetes)],
    )
    return {**hunt, "fields": [*others, {**last, "exclude": exclude}]}


def _names(exclude: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    if not exclude:
        return [], []
    (term,) = exclude["kubernetes"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    return exclude["slurm"].removeprefix("--exclude=").split(","), term["matchExpressions"][0]["values"]
