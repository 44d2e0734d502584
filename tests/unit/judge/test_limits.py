"""Bounds from links: the formula of the observed algorithm, or none."""

# ruff: noqa: E501 (XML as NCCL writes it)

from __future__ import annotations

from dataclasses import replace

import pytest
from busbw_testing.compared import record_of

from busbw.cli.diagnose import subject_of
from busbw.errors import UsageError
from busbw.judge.expectation import expect
from busbw.judge.limits import Limit, RankPlacement, limit, rank_placement
from busbw.judge.moved import gpu_bytes, node_bytes
from busbw.judge.traffic import BytePaths
from busbw.judge.wires import Wires, wires_from_topology, wires_of
from busbw.model.record import HostInfo, RankInfo, RunRecord, WorldInfo

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
    run = record_of(
        {2**20: 100.0}, hosts=2, machine=NICS, variables={"NCCL_IB_HCA": "mlx5"}, plan={"backend": "nccl"}
    )
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


GB200 = Wires(nvlink_gb_per_s=900.0, network_gb_per_s=200.0, nics=4)


def placed(hosts: int, per_host: int, domains: dict[int, str] | None = None) -> RunRecord:
    """A world of so many hosts; ``domains`` has the NVLink domain of some."""
    ranks = tuple(
        RankInfo(rank, f"h{rank // per_host}", rank, rank % per_host) for rank in range(hosts * per_host)
    )
    places = tuple(HostInfo(f"h{host}", nvlink_domain=(domains or {}).get(host, "")) for host in range(hosts))
    return replace(record_of({1024: 1.0}), world=WorldInfo("mpi", "test", len(ranks), ranks, places))


def bounded(
    record: RunRecord,
    operation: str,
    busbw: float,
    *,
    wires: Wires = GB200,
    groups: tuple[tuple[int, ...], ...] = (),
    algorithm: str = "RING",
    low: float | None = None,
    **variables: str,
) -> Limit:
    record = replace(record, plan=replace(record.plan, groups=groups), environment={"variables": variables})
    return limit(operation, algorithm, rank_placement(record, 0), wires, busbw, low)


def test_hosts_of_one_nvlink_domain_are_limited_by_nvlink() -> None:
    """72 GPUs of 18 hosts: all_reduce at 680 GB/s is 76 % of 900, not 340 % of the NICs."""
    rack = placed(18, 4, dict.fromkeys(range(18), "rack.1"))
    for operation, busbw in (("all_reduce", 680.0), ("alltoall", 600.0)):
        found = bounded(rack, operation, busbw)
        assert found.busbw_gb_per_s == 900.0
        assert found.percent == pytest.approx(busbw / 9)
        assert found.wire == "NVLink of a GPU"


def test_over_domains_the_nics_of_all_hosts_of_a_domain_count() -> None:
    two = placed(36, 4, {host: f"rack.{host // 18}" for host in range(36)})
    found = bounded(two, "all_reduce", 820.0)
    assert found.busbw_gb_per_s == 900.0  # 18 x 200 of NICs, and then NVLink
    slow = bounded(two, "all_reduce", 100.0, wires=replace(GB200, network_gb_per_s=10.0))
    assert slow.busbw_gb_per_s == 180.0
    assert slow.wire_gb_per_s == pytest.approx(100 / 18)  # of one host
    assert "domain of several hosts" in slow.model
    pairs = bounded(two, "alltoall", 50.0)
    assert pairs.busbw_gb_per_s == pytest.approx(18 * 200 / 72 * 143 / 72)


def test_a_number_above_the_limit_of_an_unknown_domain_makes_the_limit_unknown() -> None:
    nobody_says = placed(18, 4)
    found = bounded(nobody_says, "all_reduce", 680.0)
    assert (found.busbw_gb_per_s, found.percent) == (None, None)
    assert "unknown: 680 GB/s is above 200" in found.model
    assert "may share an NVLink domain" in found.model
    assert bounded(nobody_says, "all_reduce", 205.0).percent == pytest.approx(102.5)  # noise
    assert bounded(nobody_says, "all_reduce", 205.0, low=201.0).percent is None
    assert bounded(nobody_says, "all_reduce", 100.0).percent == 50.0
    assert limit("all_reduce", "RING", RankPlacement.even(72, 18), GB200, 680.0).percent is None
    # One host, or hosts that are known to be apart: the number is odd, not the limit.
    apart = placed(2, 4, {0: "a.1", 1: "b.1"})
    assert bounded(apart, "all_reduce", 680.0).percent == 340.0
    assert bounded(placed(1, 8), "all_reduce", 990.0).percent == pytest.approx(110.0)


def test_groups_have_no_bound() -> None:
    pairs = tuple((rank, rank + 1) for rank in range(0, 16, 2))
    found = bounded(placed(2, 8), "all_reduce", 225.0, wires=H100, groups=pairs)
    assert (found.busbw_gb_per_s, found.model) == (None, "groups: no bound is known")


@pytest.mark.parametrize(
    ("operation", "algorithm", "bound"),
    [
        ("all_reduce", "NVLS_TREE", 1800 * 143 / 144),
        ("all_reduce", "TREE", 1800 * 143 / 144),
        ("all_reduce", "NVLS", 1800 * 143 / 144),
        ("all_gather", "PAT", 900.0),
        ("reduce_scatter", "NVLS", 900.0),
    ],
)
def test_nvlink_inside_a_domain_bounds_what_goes_over_domains_too(
    operation: str, algorithm: str, bound: float
) -> None:
    """A GPU sends its own data once over its own link, whatever switches add up: 18 x 200 GB/s of NICs do not
    help.
    """
    two = placed(36, 4, {host: f"rack.{host // 18}" for host in range(36)})
    found = bounded(two, operation, 450.0, algorithm=algorithm)
    assert found.busbw_gb_per_s == pytest.approx(bound)
    assert "NVLink inside a node" in found.model
    assert found.percent == pytest.approx(100 * 450 / bound)


S = 2**30


@pytest.mark.parametrize(
    ("operation", "algorithm", "ranks", "nodes", "share", "exact"),
    [
        ("all_reduce", "RING SIMPLE", 2, 1, 1.0, True),
        ("all_reduce", "RING LL", 2, 1, 2.0, True),
        ("all_reduce", "NVLS SIMPLE", 8, 1, 9 / 8, True),
        ("all_gather", "RING LL128", 4, 1, 0.75 * 128 / 120, True),
        ("alltoall", "", 4, 1, 0.75, True),
        ("sendrecv", "", 2, 1, 1.0, True),
        ("all_reduce", "RING SIMPLE", 16, 2, 2 * 15 / 16, True),
        ("all_reduce", "RING LL", 16, 2, 4 * 15 / 16, True),
        ("all_reduce", "TREE LL128", 16, 2, 128 / 120, True),
        ("all_reduce", "NVLS_TREE SIMPLE", 32, 4, 1.5, True),
        ("all_reduce", "COLLNET_DIRECT SIMPLE", 32, 4, 1.0, True),
        ("all_reduce", "", 4, 4, 1.5, False),
        ("all_gather", "RING SIMPLE", 8, 2, 7 / 8, True),
        ("reduce_scatter", "", 8, 2, 0.5, False),
        ("alltoall", "", 8, 2, 4 * 4 / 8, True),
    ],
)
def test_out_of_a_gpu_or_a_node(
    operation: str, algorithm: str, ranks: int, nodes: int, share: float, exact: bool
) -> None:
    moved = node_bytes(operation, algorithm, S, ranks, nodes)
    if nodes == 1:
        moved = gpu_bytes(operation, algorithm, S, ranks)
    assert moved is not None
    assert (moved.bytes, moved.exact) == (pytest.approx(share * S), exact)
