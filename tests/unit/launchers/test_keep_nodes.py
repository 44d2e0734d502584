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
    assert err.getvalue() == "later launches on 2 nodes keep to those of this one: a,c\n"


@pytest.mark.parametrize(
    ("on", "nodes"), [("kubernetes", ()), ("kubernetes", ("a", "")), ("slurm", ("a", "b"))]
)
def test_nodes_that_are_not_known_or_cannot_be_chosen(
    tmp_path: Path, on: str, nodes: tuple[str, ...]
) -> None:
    err, launch = io.StringIO(), replace(LAUNCH, on=on)
    assert on_nodes_of(run_on(tmp_path, *nodes), launch, err) == launch
    assert err.getvalue() == ""
