"""Nodes that the next job is to leave out, in the words of Slurm and Kubernetes: slow ones and lost ones.

Findings on lost ones, as all that a front process made before there were ranks, are kept beside the request,
and put into the record once it is there, before those of the ranks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from busbw.model.finding import Finding
from busbw.record.folder import RUN_FILE
from busbw.record.results import read_fields, write_record
from busbw.redact import redact_all

_FILE: Final = Path("request") / "findings.json"
LOST: Final = "lost"  # the check of a finding on a host that died or hung


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
    return (
        f"take it out of service; until then --exclude={node} in Slurm, kubernetes.io/hostname NotIn [{node}]"
        " in Kubernetes"
    )


def with_lost(hunt: Mapping[str, Any], findings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The verdict of a hunt whose last field, that of the hosts, leaves lost hosts out as well; once."""
    # By the engine's name for them; the record of the others has no place of theirs.
    nodes = (str(each.get("node", "")) for each in findings if each["check"] == LOST)
    lost = tuple(dict.fromkeys(filter(None, nodes)))
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


def keep(folder: Path, findings: Iterable[Finding]) -> None:
    """Lay them beside the request; nothing where there are none."""
    values = redact_all([asdict(finding) for finding in findings])
    if values:
        (folder / _FILE).write_text(json.dumps(values) + "\n")


def merge(folder: Path) -> None:
    """Put what was kept into the record of a run that has ended, once."""
    kept = folder / _FILE
    if not kept.is_file() or not (folder / RUN_FILE).is_file():
        return
    fields = read_fields(folder)
    found = json.loads(kept.read_text())
    fields["findings"] = [*found, *fields.get("findings", ())]
    fields["hunt"] = with_lost(fields.get("hunt", {}), found)
    write_record(folder, fields)
    kept.unlink()
