"""Bounds from links: the formula of the observed algorithm, or none."""

# ruff: noqa: E501 (XML as NCCL writes it)

from __future__ import annotations

from dataclasses import replace

import pytest
from busbw_testing.compared import record_of

from busbw.cli.diagnose import subject_of
from busbw.errors import UsageError
from busbw.judge.expectation import expect
from busbw.judge.limits import RankPlacement, limit
from busbw.judge.traffic import BytePaths
from busbw.judge.wires import Wires, wires_from_topology, wires_of

H100 = Wires(nvlink_gb_per_s=450.0, network_gb_per_s=400.0, nics=8)

TOPOLOGY = """<system version="1">
  <cpu numaid="0" arch="x86_64"><pci busid="0000:1a:00.0" link_speed="32 GT/s" link_width="16">
    <gpu dev="0" sm="90" rank="0" gdr="1"><nvlink target="ffff" count="18" tclass="0x068000"/></gpu></pci>
   <pci busid="0000:2a:00.0"><gpu dev="1" sm="90" rank="1" gdr="1"><nvlink target="ffff" count="17"/></gpu></pci>
   <nic><net name="mlx5_0" dev="0" speed="400000"/></nic><nic><net name="mlx5_1" dev="1" speed="400000"/></nic>
  </cpu></system>"""


@pytest.mark.parametrize(
    ("operation", "algorithm", "ranks", "nodes", "busbw", "bound"),
    [
        ("all_reduce", "RING", 8, 1, 360.0, 450.0),
        ("all_gather", "RING", 8, 1, 360.0, 450.0),
        ("all_reduce", "NVLS", 8, 1, 480.0, 700.0),  # 2 B (n-1)/(n+1)
        ("all_reduce", "RING", 16, 2, 360.0, 400.0),
        ("all_reduce", "TREE", 16, 2, 487.0, 750.0),  # 2 W (n-1)/n: above the wire's own 400
        ("all_reduce", "NVLS_TREE", 32, 4, 300.0, 387.5),
        ("all_reduce", "COLLNET_CHAIN", 96, 12, 386.0, 800 * 95 / 96),
        ("all_reduce", "TREE", 24, 3, 300.0, 400 * 4 / 3 * 23 / 24),  # the busiest node has 3 edges
        ("all_reduce", "NVLS", 16, 2, 480.0, 750.0),  # with SHARP between nodes
        ("all_gather", "NVLS", 8, 1, 360.0, 450 * 7 / 8),
        ("all_gather", "PAT", 4, 4, 360.0, 400.0),
        ("broadcast", "", 8, 1, 360.0, 450.0),
        ("reduce", "RING", 16, 2, 360.0, 400.0),
        ("alltoall", "", 16, 2, 50.0, 400 / 8 * 15 / 8),
        ("sendrecv", "", 8, 1, 357.0, 450.0),
        ("sendrecv", "", 16, 2, 300.0, 400.0),
    ],
)
def test_the_bound_is_that_of_the_algorithm(
    operation: str, algorithm: str, ranks: int, nodes: int, busbw: float, bound: float
) -> None:
    found = limit(operation, algorithm, RankPlacement.even(ranks, nodes), H100, busbw)
    assert found.busbw_gb_per_s == pytest.approx(bound)
    assert found.percent == pytest.approx(100 * busbw / bound)
    assert found.wire_gb_per_s is not None
    # At the bound the wire that is bounded runs at its own rate.
    at_bound = limit(operation, algorithm, RankPlacement.even(ranks, nodes), H100, bound).wire_gb_per_s
    assert at_bound == pytest.approx(450.0 if nodes == 1 else 400.0)


GPUS = {"driver_version": "580", "gpus": [{"pcie_gb_per_s": 63.0, "nvlink_gb_per_s": 26.562,
        "nvlinks": [{"active": True}] * 18}] * 2}  # fmt: skip


def test_without_nvlink_or_with_direct_access_off_pcie_is_the_limit() -> None:
    on = wires_of({"gpus": GPUS})
    assert (on.gpu_link, on.gpu_gb_per_s) == ("NVLink", pytest.approx(478.1, abs=0.1))
    off = wires_of({"gpus": GPUS}, BytePaths(settings={"NCCL_P2P_DISABLE": "1"}))
    none = wires_of({"gpus": {**GPUS, "gpus": [{**gpu, "nvlinks": []} for gpu in GPUS["gpus"]]}})
    for wires in (off, none):
        found = limit("all_reduce", "RING", RankPlacement.even(2, 1), wires, 31.5)
        assert found.model == "ring: 2 S (n-1)/n over PCIe inside a node"
        assert (found.percent, found.wire) == (pytest.approx(50.0), "PCIe of a GPU")
    assert limit("all_reduce", "NVLS", RankPlacement.even(2, 1), off, 31.5).busbw_gb_per_s is None
    unread = {**GPUS, "driver_version": "", "gpus": [{"pcie_gb_per_s": 63.0}]}  # NVML was not there
    assert wires_of({"gpus": unread}).gpu_gb_per_s is None


@pytest.mark.parametrize(
    ("operation", "algorithm", "ranks", "nodes", "why"),
    [
        ("all_reduce", "", 8, 1, "unknown algorithm"),
        ("all_reduce", "PAT", 8, 1, "no bound is known for PAT"),
        ("gather", "", 8, 1, "unknown algorithm"),
        ("all_gather", "", 8, 1, "unknown algorithm"),
        ("all_gather", "PAT", 8, 1, "no bound is known: each byte once to each node"),
        ("all_reduce", "RING", 16, 0, "nodes is not known"),
        ("all_reduce", "RING", 1, 1, "one rank"),
        ("all_reduce", "TREE", 8, 1, "no bound is known"),
    ],
)
def test_without_a_formula_there_is_no_bound(
    operation: str, algorithm: str, ranks: int, nodes: int, why: str
) -> None:
    found = limit(operation, algorithm, RankPlacement.even(ranks, nodes), H100, 100.0)
    assert (found.busbw_gb_per_s, found.percent) == (None, None)
    assert why in found.model


def machine(states: str = "ACTIVE", rate: float | None = 400.0) -> dict[str, object]:
    links = [{"link": i, "active": i < 18} for i in range(20)]
    gpus = [{"nvlinks": links, "nvlink_gb_per_s": 25.0}, {"nvlinks": links[:17], "nvlink_gb_per_s": 25.0}]
    port = {"state": states, "rate_gbit_per_s": rate}
    return {
        "gpus": {"gpus": gpus},
        "nics": {"rdma": [{"ports": [port]}] * 4, "cxi": [{"speed": "BS_200G"}], "interfaces": []},
    }


def test_links_come_from_the_record() -> None:
    found = wires_of(machine())
    assert found.nvlink_gb_per_s == 17 * 25.0  # the GPU with the fewest
    assert (found.network_gb_per_s, found.nics) == (4 * 50 + 25, 5)


NICS = {
    "nics": {
        "rdma": [
            {"name": name, "kind": "infiniband", "ports": [
                {"port": 1, "state": "ACTIVE", "rate_gbit_per_s": rate},
            ]}
            for name, rate in (("mlx5_0", 400.0), ("mlx5_1", 400.0), ("storage_0", 200.0))
        ]
    }
}  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "gb_per_s", "nics", "said"),
    [
        ({}, 125.0, 3, "all active ports, used or not"),
        ({"NCCL_IB_HCA": "mlx5"}, 100.0, 2, "ports that NCCL_IB_HCA lets be used"),
        ({"NCCL_IB_HCA": "^storage_0"}, 100.0, 2, "ports that NCCL_IB_HCA lets be used"),
        ({"NCCL_IB_HCA": "=mlx5_1:1"}, 50.0, 1, "ports that NCCL_IB_HCA lets be used"),
        ({"NCCL_IB_HCA": "nothing_here"}, 125.0, 3, "all active ports, used or not"),
    ],
)
def test_ports_that_a_setting_keeps_out_are_not_in_the_sum(
    setting: dict[str, str], gb_per_s: float, nics: int, said: str
) -> None:
    """A NIC for storage raises the sum, so the limit looks farther away than it is."""
    found = wires_of(NICS, BytePaths(settings=setting))
    assert (found.network_gb_per_s, found.nics) == (gb_per_s, nics)
    assert found.source.endswith(said)


def test_a_runs_own_setting_decides_which_ports_count() -> None:
    run = record_of({2**20: 100.0}, ranks=8, hosts=2)
    run = replace(
        run, machine=NICS, environment={"variables": {"NCCL_IB_HCA": "mlx5"}},
        plan=replace(run.plan, backend="nccl"),
    )  # fmt: skip
    assert expect([run], []).wires.network_gb_per_s == 100.0
    assert subject_of(run, None).wires.network_gb_per_s == 100.0


def test_a_port_that_does_not_say_its_rate_leaves_the_network_unknown() -> None:
    """EFA's driver states 100 Gb/s whatever the card."""
    assert wires_of(machine(rate=None)).network_gb_per_s is None
    assert wires_of(machine(states="DOWN")).network_gb_per_s == 25.0
    empty = wires_of({})
    assert (empty.nvlink_gb_per_s, empty.network_gb_per_s) == (None, None)


def test_links_come_from_nccls_topology() -> None:
    found = wires_from_topology(TOPOLOGY)
    assert found.nvlink_gb_per_s == pytest.approx(17 * 20.6)
    assert (found.network_gb_per_s, found.nics) == (100.0, 2)
    assert wires_from_topology(TOPOLOGY.replace("400000", "-1")).network_gb_per_s is None
    with pytest.raises(UsageError, match="not an XML file"):
        wires_from_topology("no XML")
