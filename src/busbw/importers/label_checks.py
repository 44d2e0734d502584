"""Labels of a path, an index or a flag that the log itself contradicts: they lose, and that is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from busbw.importers.headings import NCCL_TESTS, RCCL_TESTS
from busbw.importers.table import Table
from busbw.importers.world import versions_said
from busbw.model.record import ImportFinding
from busbw.model.version_words import is_same_version

FLAG: Final = "flag"


@dataclass(frozen=True)
class Labelled:
    """Labels by name, and a function that says whose word each is."""

    labels: Mapping[str, str]
    by: Callable[[str], str]

    def number(self, name: str) -> int | None:
        """The label as a number; None where it is not there or none."""
        text = self.labels.get(name, "")
        return int(text) if text.isdecimal() and len(text) < 10 else None


def against_labels(
    table: Table, told: Labelled, ranks: tuple[int, str], evidence: Mapping[str, Any]
) -> list[ImportFinding]:
    """A finding for each label that the log contradicts. ``ranks`` are how many, and whose word that is."""
    words = [*_nodes(table, told, ranks[0]), *_gpus(table, told, *ranks), *_version(table, told, evidence)]
    return [ImportFinding("mislabelled", text, table.first_line) for text in words]


def _hosts(table: Table) -> int:
    """How many hosts the device list names; 0 where it does not list all ranks."""
    listed = table.ranks
    if not listed or {line.rank for line in listed} != set(range(len(listed))):
        return 0
    hosts = {line.host for line in listed}
    return 0 if "" in hosts else len(hosts)


def _nodes(table: Table, told: Labelled, ranks: int) -> Iterator[str]:
    nodes = told.number("nodes")
    if nodes is None:
        return
    hosts = _hosts(table)
    if hosts and nodes != hosts:
        yield f"{_labelled_nodes(nodes, told)}, but the device list has {_count(hosts, 'host')}"
    elif not hosts and nodes > ranks > 0:
        yield f"{_labelled_nodes(nodes, told)}, but there are {_count(ranks, 'rank')}"


def _labelled_nodes(nodes: int, told: Labelled) -> str:
    return f"{_count(nodes, 'node')} by {told.by('nodes')}"


def _gpus(table: Table, told: Labelled, ranks: int, ranks_by: str) -> Iterator[str]:
    """GPUs are those of all nodes or of each; these tests have a rank for each."""
    nodes, gpus = told.number("nodes"), told.number("gpus")
    if nodes is None or gpus is None or ranks < 1 or table.tool not in (NCCL_TESTS, RCCL_TESTS):
        return
    listed = len(table.ranks) if _hosts(table) else ranks  # a device list has the ranks of all groups
    if not {gpus, gpus * nodes, gpus * _hosts(table)} & {ranks, listed}:
        yield (
            f"{_count(nodes, 'node')} and {_count(gpus, 'GPU')} by {told.by('gpus')}, but there are"
            f" {_count(ranks, 'rank')} by {ranks_by}"
        )


def _version(table: Table, told: Labelled, evidence: Mapping[str, Any]) -> Iterator[str]:
    label = told.labels.get("version", "")
    said = versions_said(table, evidence)
    if label and said and not any(is_same_version(label, version) for version in said):
        yield f"version {label} by {told.by('version')}, but the log says {', '.join(said)}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' if number != 1 else ''}"
