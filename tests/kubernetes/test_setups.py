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
    assert done.err.count(f"later launches on 2 nodes keep to those of this one: {','.join(nodes[0])}") == 1


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_a_series_inside_one_job(busbw: Any, mpi: str, request: pytest.FixtureRequest) -> None:
    """The launcher pod measures on its workers over ssh, and is none of the hosts."""
    runs = busbw.folder / "runs"
    write(runs / "setups.yaml", SETUPS)
    image = request.getfixturevalue("openmpi") if mpi == "openmpi" else "lab/busbw"
    where = ("-N", "2", "--image", image, "--mpi", mpi, "--mounts", f"{runs}:/runs")
    command = ("python3", "-m", "busbw", "compare", "/runs/setups.yaml", *SERIES, "-c", "0")
    done = busbw(
        "exec",
        *where,
        "--env",
        "BUSBW_HOME=/runs",
        "--once",
        "--",
        *command,
        "--backend",
        "mpi",
        "--on",
        "hosts",
    )
    assert done.code == 0, done
    assert "2 hosts with 2 slots, from BUSBW_HOSTFILE" in done.out
    (series,) = (path for path in runs.iterdir() if path.is_dir() and path.name[0] != ".")
    launches = sorted((series / "launches").glob("0*"))
    assert len(launches) == 4
    for launch in launches:
        record = json.loads((launch / "run.json").read_text())
        assert record["status"] == "complete"
        places = record["world"]["places"]
        assert len({place["kubernetes_node"] for place in places}) == 2
        assert all("-worker-" in place["pod"] for place in places)
