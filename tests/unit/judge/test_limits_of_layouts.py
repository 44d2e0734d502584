"""Bounds where hosts share an NVLink domain."""

from __future__ import annotations

from dataclasses import replace

import pytest
from busbw_testing.compared import record_of

from busbw.judge.limits import Limit, RankPlacement, limit, rank_placement
from busbw.judge.wires import Wires
from busbw.model.record import HostInfo, RankInfo, RunRecord, WorldInfo

GB200 = Wires(nvlink_gb_per_s=900.0, network_gb_per_s=200.0, nics=4)
H100 = Wires(nvlink_gb_per_s=450.0, network_gb_per_s=400.0, nics=8)


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
