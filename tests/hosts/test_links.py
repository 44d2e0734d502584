"""Four hosts with two NICs each, and what their counters tell of the links that MPI used."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(600)]

RUN = ("run", "all_reduce", "-b", "1M", "-e", "1M", "-n", "20", "--backend", "mpi", "--evidence", "counters")


def diagnosed(cluster: Any) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code of `busbw diagnose`, and its conclusions by their ids."""
    front = cluster.start("diagnose", "last", "--format", "json")
    code = front.finish().code
    told = json.loads(front.out)
    assert told["exit_code"] == code
    return code, {each["check"]: each for each in told["conclusions"]}


def rates(found: dict[str, Any]) -> dict[str, list[float]]:
    """GB/s of every host's link, by device."""
    by_device: dict[str, list[float]] = {}
    for fact in found["facts"]:
        by_device.setdefault(fact["name"].split()[1], []).append(fact["value"])
    return by_device


def test_the_bundled_mpi_is_confined_and_set_free_by_ucx(two_nics_cluster: Any) -> None:
    """What the finding says to try."""
    cluster = two_nics_cluster
    on = ("--on", "hosts", "--hosts", "h1,h2")
    cluster.run(*RUN, *on, "--env", "UCX_NET_DEVICES=eth1")
    code, found = diagnosed(cluster)
    assert code == 1
    used = found["links.used"]
    assert (used["answer"], used["severity"]) == ("no", "error")
    assert used["claim"].startswith("1 of 2 ethernet links carried traffic on 2 of 2 hosts")
    assert "nothing on eth0, all on eth1" in used["claim"]
    by_device = rates(used)
    assert max(by_device["eth0"]) < 0.01 * min(by_device["eth1"])
    # What every algorithm of sends and receives has to move went through that NIC.
    assert found["links.bytes"]["answer"] == "yes"
    moved = {fact["name"]: fact["value"] for fact in found["links.bytes"]["facts"]}
    assert moved["bytes a call"] >= moved["bytes that must move"]
    assert "links.even" not in found
    rails = [f"{name}=2" for name in ("UCX_MAX_RNDV_RAILS", "UCX_MAX_EAGER_RAILS")]
    assert all(each.removesuffix("=2") in used["hint"] for each in rails)
    set_free = [word for each in ("UCX_NET_DEVICES=eth0,eth1", *rails) for word in ("--env", each)]
    cluster.run(*RUN, *on, *set_free)
    _, found = diagnosed(cluster)
    assert found["links.used"]["answer"] == "yes"
    assert found["links.used"]["claim"].startswith("all 2 ethernet links of each host carried traffic")
