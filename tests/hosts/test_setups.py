"""Setups that are launched in turn over SSH, one of which hangs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from busbw_testing.compared import SERIES, setups_of_which_one_hangs

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(600)]


def test_a_setup_that_hangs_is_ended_and_the_others_are_measured(cluster: Any) -> None:
    # The front and the keeper have neither a ticket nor a place among MPI's ranks.
    spec = setups_of_which_one_hangs(cluster.folder, "BUSBW_TICKET", "PMI_RANK")
    front = cluster.start("compare", spec, *SERIES, "--on", "hosts", "--hosts", "h2,h3,h4", "-N", "2")
    assert front.finish().code == 0, front.err
    told = json.loads(front.out)
    reached = {each["setup"]: each for each in told["reached"]}
    assert [each["failed"] for each in told["reached"] if each["setup"] != "hanging"] == [0, 0], told
    assert reached["plain"]["largest_nodes"] == 2
    assert reached["hanging"]["failed"] == 1
    assert "had not ended after 25 s: no rank had said anything" in reached["hanging"]["error"]
    (folder,) = (path for path in cluster.home.iterdir() if (path / "setups.json").exists())
    for outcome in json.loads((folder / "setups.json").read_text())["outcomes"]:
        if outcome["setup"] != "hanging":
            record = json.loads((folder / outcome["folder"] / "run.json").read_text())
            hosts = {rank["host"] for rank in record["world"]["ranks"]}
            assert hosts == set(("h2", "h3", "h4")[: outcome["nodes"]])
            assert ("MPIR_CVAR_NOLOCAL" in json.dumps(record["environment"])) is (outcome["setup"] == "tcp")
    assert not cluster.left()
