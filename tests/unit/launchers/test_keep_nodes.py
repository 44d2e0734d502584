"""Later launches on the nodes of the first one that measured."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from busbw_testing.compared import record_of

from busbw.launchers.keep_nodes import on_nodes_of
from busbw.model.record import HostInfo
from busbw.record.write import write_record
from busbw.settings.launch import LaunchSettings

LAUNCH = LaunchSettings(on="kubernetes", nodes="2", set=("gpu=8", "only=a,b,c"))


def run_on(folder: Path, *nodes: str) -> Path:
    made = record_of({1024: 10.0}, hosts=2)
    assert made.world is not None
    places = tuple(HostInfo(f"pod-{number}", kubernetes_node=node) for number, node in enumerate(nodes))
    write_record(folder, replace(made, world=replace(made.world, places=places)))
    return folder


def test_later_launches_keep_to_the_nodes(tmp_path: Path) -> None:
    err = io.StringIO()
    kept = on_nodes_of(run_on(tmp_path, "c", "a"), LAUNCH, err)
    assert kept == replace(LAUNCH, set=(*LAUNCH.set, "only=", "only=a,c"))
    assert err.getvalue() == "later launches keep to the 2 nodes of this one, a,c\n"


def test_pods_that_share_nodes_may_lie_otherwise(tmp_path: Path) -> None:
    err = io.StringIO()
    kept = on_nodes_of(run_on(tmp_path, "a", "a"), replace(LAUNCH, exclusive=False), err)
    assert kept.set[-1] == "only=a"
    told = "later launches keep to the 1 node of this one, a, on which pods may lie otherwise (--shared)\n"
    assert err.getvalue() == told


@pytest.mark.parametrize(
    ("on", "nodes", "told"),
    [("kubernetes", (), True), ("kubernetes", ("a", ""), True), ("slurm", ("a", "b"), False)],
)
def test_nodes_that_are_not_known_or_cannot_be_chosen(
    tmp_path: Path, on: str, nodes: tuple[str, ...], told: bool
) -> None:
    err, launch = io.StringIO(), replace(LAUNCH, on=on)
    assert on_nodes_of(run_on(tmp_path, *nodes), launch, err) == launch
    assert err.getvalue().startswith("later launches may get other nodes" if told else "")
    assert bool(err.getvalue()) is told
