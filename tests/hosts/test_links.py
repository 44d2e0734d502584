"""Four hosts with two NICs each, and what their counters tell of the links that MPI used."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(600)]

RUN = ("run", "all_reduce", "-b", "1M", "-e", "1M", "-n", "20", "--backend", "mpi", "--evidence", "counters")
ON = ("--on", "hosts", "--hosts", "h1,h2,h3,h4")


def diagnosed(cluster: Any) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code of `busbw diagnose`, and its conclusions by their ids."""
    front = cluster.start("diagnose", "last", "--format", "json")
    code = front.finish()
    told = json.loads(front.out)
    assert told["exit_code"] == code
    return code, {each["check"]: each for each in told["conclusions"]}


def rates(found: dict[str, Any]) -> dict[str, list[float]]:
    """GB/s of every host's link, by device."""
    by_device: dict[str, list[float]] = {}
    for fact in found["facts"]:
        by_device.setdefault(fact["name"].split()[1], []).append(fact["value"])
    return by_device


@pytest.mark.parametrize("nic", ["eth1", "eth0"])
def test_mpi_confined_to_one_nic_is_said(two_nics_cluster: Any, open_mpi_python: str, nic: str) -> None:
    cluster = two_nics_cluster
    cluster.run(*RUN, *ON, "--env", f"OMPI_MCA_btl_tcp_if_include={nic}", python=open_mpi_python)
    code, found = diagnosed(cluster)
    used = found["links.used"]
    other = {"eth0": "eth1", "eth1": "eth0"}[nic]
    assert code == 1
    assert (used["answer"], used["severity"]) == ("no", "error")
    assert used["claim"].startswith("1 of 2 ethernet links carried traffic on 4 of 4 hosts")
    assert f"nothing on {other}, all on {nic}" in used["claim"]
    by_device = rates(used)
    assert len(by_device[nic]) == 4
    assert max(by_device[other]) < 0.01 * min(by_device[nic])
    # What every algorithm of sends and receives has to move went through that NIC.
    assert found["links.bytes"]["answer"] == "yes"
    moved = {fact["name"]: fact["value"] for fact in found["links.bytes"]["facts"]}
    assert moved["bytes a call"] >= moved["bytes that must move"] == 1.5 * 2**20


def test_both_nics_in_use_are_said(two_nics_cluster: Any, open_mpi_python: str) -> None:
    cluster = two_nics_cluster
    cluster.run(*RUN, *ON, "--env", "OMPI_MCA_btl_tcp_if_include=eth0,eth1", python=open_mpi_python)
    _, found = diagnosed(cluster)
    used = found["links.used"]
    assert used["answer"] == "yes"
    assert used["claim"].startswith("all 2 ethernet links of each host carried traffic")
    by_device = rates(used)
    assert min(map(min, by_device.values())) > 0.01 * max(map(max, by_device.values()))
    assert "rate" not in used["claim"].split("(")[1]  # nobody states a veth's


def test_the_bundled_mpi_is_confined_and_set_free_by_ucx(two_nics_cluster: Any) -> None:
    """What the finding says to try."""
    cluster = two_nics_cluster
    on = ("--on", "hosts", "--hosts", "h1,h2")
    cluster.run(*RUN, *on, "--env", "UCX_NET_DEVICES=eth1")
    _, found = diagnosed(cluster)
    assert "nothing on eth0, all on eth1" in found["links.used"]["claim"]
    assert "links.even" not in found
    rails = [f"{name}=2" for name in ("UCX_MAX_RNDV_RAILS", "UCX_MAX_EAGER_RAILS")]
    assert all(each.removesuffix("=2") in found["links.used"]["hint"] for each in rails)
    set_free = [word for each in ("UCX_NET_DEVICES=eth0,eth1", *rails) for word in ("--env", each)]
    cluster.run(*RUN, *on, *set_free)
    _, found = diagnosed(cluster)
    assert found["links.used"]["answer"] == "yes"
    assert found["links.used"]["claim"].startswith("all 2 ethernet links of each host carried traffic")
