"""Setups whose launches were on other nodes: what a comparison says of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from busbw_testing.compared import record_of

from busbw.analysis.compare import compare
from busbw.analysis.compare_places import before_launches, nodes_of
from busbw.analysis.compare_setups import LaunchOutcome, setup_arms
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


@pytest.mark.parametrize(
    ("engine", "instead"),
    [("pbs", "`busbw compare ... --on hosts`"), ("slurm", "--job-id"), ("batch", "no allocation")],
)
def test_jobs_of_their_own_on_nodes_that_differ(engine: str, instead: str) -> None:
    place = {"instance": "i-"} if engine == "batch" else {}
    first, second = notes({"on": engine}, [PLAIN, OTHER], **place)
    assert first.startswith(f"each launch was a job of its own on {engine}, with nodes which differed; ")
    assert instead in first
    assert second.startswith("tuned: on other nodes than plain in 1 of 2 blocks (block 2: ")


def test_jobs_of_their_own_on_nodes_that_nobody_knows() -> None:
    """The names of containers say nothing of machines."""
    (told,) = notes({"on": "batch"}, [PLAIN, OTHER])
    assert "each launch was a job of its own on batch, with nodes which the records do not name" in told


def test_many_nodes_are_not_all_named() -> None:
    made = record_of({1024: 10.0}, ranks=6, hosts=6)
    assert made.world is not None
    ranks = tuple(replace(rank, host=f"x{rank.rank}") for rank in made.world.ranks)
    other = replace(made, world=replace(made.world, ranks=ranks))
    outcomes = [LaunchOutcome(name, 0, 6, name, 1.0) for name in ("plain", "tuned")]
    (told,) = compare(setup_arms("s", ["plain", "tuned"], outcomes, {"plain": made, "tuned": other}, 6)).notes
    assert "(block 1: x0,x1,x2,x3 and 2 more against node0,node1,node2,node3 and 2 more)" in told


def test_the_names_of_machines() -> None:
    assert nodes_of(on(("b", "a"), {})) == ("a", "b")
    pods: dict[str, str] = {"pod": "pod-", "kubernetes_node": "node-"}
    assert nodes_of(on(("b", "a"), {"on": "kubernetes"}, **pods)) == ("node-a", "node-b")
    assert nodes_of(on(("b", "a"), {}, pod="pod-")) == ()
    assert nodes_of(on(("b", "a"), {"on": "batch"}, instance="i-")) == ("i-a", "i-b")
    assert nodes_of(replace(on(PLAIN, {}), world=None)) == ()


def test_what_is_told_before_the_first_launch() -> None:
    told = {engine: before_launches(engine) for engine in ("hosts", "slurm", "kubernetes", "pbs", "batch")}
    assert [engine for engine, words in told.items() if words] == ["batch"]
    assert "AWS Batch has no allocation for several jobs" in told["batch"]
