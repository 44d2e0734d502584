"""The machines of a launch, by the names that outlast a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from busbw_testing.compared import record_of

from busbw.judge.measured_with import nodes_of
from busbw.model.record import HostInfo, RunRecord

PLAIN = ("a", "b")


def on(nodes: Sequence[str], launch: Mapping[str, Any], **place: str) -> RunRecord:
    """A launch whose two ranks are on two hosts."""
    made = record_of({1024: 10.0}, hosts=2)
    assert made.world is not None
    ranks = tuple(replace(rank, host=host) for rank, host in zip(made.world.ranks, nodes, strict=True))
    places = tuple(
        HostInfo(host, **{name: f"{value}{host}" for name, value in place.items()}) for host in nodes
    )
    world = replace(made.world, ranks=ranks, places=places)
    return replace(made, world=world, settings={"launch": dict(launch)} if launch else {})


def test_the_names_of_machines() -> None:
    assert nodes_of(on(("b", "a"), {})) == ("a", "b")
    pods: dict[str, str] = {"pod": "pod-", "kubernetes_node": "node-"}
    assert nodes_of(on(("b", "a"), {"on": "kubernetes"}, **pods)) == ("node-a", "node-b")
    assert nodes_of(on(("b", "a"), {}, pod="pod-")) == ()
    assert nodes_of(on(("b", "a"), {}, instance="i-")) == ("i-a", "i-b")
    assert nodes_of(replace(on(PLAIN, {}), world=None)) == ()
