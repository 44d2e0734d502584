"""Setups that are launched in turn: jobs of their own on the same nodes, and inside one job."""

from __future__ import annotations

import json
from typing import Any

import pytest
from busbw_testing.compared import write

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]

SETUPS = 'setups: {plain: {}, other: {env: {A: "1"}}}'
SERIES = ("--ops", "all_reduce", "-b", "1K", "-e", "1K", "--blocks", "2", "--order-seed", "1")


def test_later_launches_are_on_the_nodes_of_the_first(busbw: Any, namespace: str) -> None:
    spec = write(busbw.folder / "setups.yaml", SETUPS)
    where = ("--on", "kubernetes", "--namespace", namespace, "-N", "2", "--image", "lab/busbw")
    done = busbw("compare", str(spec), *SERIES, "--backend", "null", "--world", "nccl", *where)
    assert done.code == 0, done
    launches = sorted((busbw.run_folder / "launches").iterdir())
    places = [json.loads((each / "run.json").read_text())["world"]["places"] for each in launches]
    nodes = [sorted(place["kubernetes_node"] for place in each) for each in places]
    assert len(nodes) == 4
    assert len(set(nodes[0])) == 2
    assert nodes == [nodes[0]] * 4
    assert done.err.count(f"later launches keep to the 2 nodes of this one, {','.join(nodes[0])}") == 1
