"""Setups whose launches were on other nodes: what a comparison says of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from busbw_testing.compared import record_of

from busbw.judge.compare import compare
from busbw.judge.compare_setups import LaunchOutcome, setup_arms
from busbw.judge.measured_with import nodes_of
from busbw.model.record import HostInfo, RunRecord

PLAIN, OTHER = ("a", "b"), ("c", "d")


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


def notes(
    launch: Mapping[str, Any], tuned: Sequence[Sequence[str]], plain: Sequence[str] = PLAIN, **place: str
) -> list[str]:
    """Of three blocks, or as many as ``tuned`` has nodes for."""
    outcomes, records = [], {}
    for block, nodes in enumerate(tuned):
        for name, own in (("plain", plain), ("tuned", nodes)):
            folder = f"launches/{len(outcomes)}"
            records[folder] = on(own, launch, **place)
            outcomes.append(LaunchOutcome(name, block, 2, folder, 1.0))
    return list(compare(setup_arms("s", ["plain", "tuned"], outcomes, records, 2)).notes)


@pytest.mark.parametrize("launch", [{}, {"on": "hosts"}, {"on": "pbs"}, {"on": "slurm", "job_id": "7"}])
def test_launches_on_the_same_nodes_are_nothing_to_tell(launch: dict[str, str]) -> None:
    assert notes(launch, [PLAIN, ("b", "a"), PLAIN]) == []


def test_a_setup_on_other_nodes_than_the_baseline() -> None:
    told = "tuned: on other nodes than plain in 2 of 3 blocks (block 2: c,d against a,b): what differs may be"
    assert notes({}, [PLAIN, OTHER, OTHER]) == [f"{told} the nodes"]


def test_the_names_of_machines() -> None:
    assert nodes_of(on(("b", "a"), {})) == ("a", "b")
    pods: dict[str, str] = {"pod": "pod-", "kubernetes_node": "node-"}
    assert nodes_of(on(("b", "a"), {"on": "kubernetes"}, **pods)) == ("node-a", "node-b")
    assert nodes_of(on(("b", "a"), {}, pod="pod-")) == ()
    assert nodes_of(on(("b", "a"), {}, instance="i-")) == ("i-a", "i-b")
    assert nodes_of(replace(on(PLAIN, {}), world=None)) == ()
