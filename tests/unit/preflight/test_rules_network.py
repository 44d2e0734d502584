"""The rules on NICs, ports and interfaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from busbw.model.finding import Finding, Severity
from busbw.model.plan import Preflight
from busbw.planning.preflight import make_preflight
from busbw.preflight.facts import RankFacts
from busbw.settings.run import RunSettings

Ranks = Callable[..., tuple[RankFacts, ...]]
Found = Callable[..., list[Finding]]
ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO


def only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


def with_nic(ranks: Ranks, parts: Any, at: int, place: int, **changed: Any) -> tuple[RankFacts, ...]:
    """Healthy hosts, but for one NIC of the host of rank ``at``; without changes it is gone."""
    all_nics = list(parts.nics())
    if changed:
        all_nics[place] = replace(all_nics[place], **changed)
    else:
        del all_nics[place]
    return ranks(at=at, node=parts.node(nics=tuple(all_nics)))


def test_a_fabric_port_is_down(ranks: Ranks, found: Found, parts: Any) -> None:
    findings = found(with_nic(ranks, parts, 4, 1, up=False, state="DOWN"), check="nics-up")
    finding = only(findings)
    assert (finding.severity, finding.host) == (ERROR, "h3")
    assert finding.claim == "1 of 2 fabric ports are active on h3"
    assert finding.evidence == "not active: mlx5_1:1 DOWN"


def said(nics: int, net: str = "ib") -> Preflight:
    return Preflight("run", expects=(f"net={net}", f"nics={nics}"))


def test_a_port_is_down_on_most_hosts_and_the_number_was_said(ranks: Ranks, found: Found, parts: Any) -> None:
    """The majority is wrong; what the preset says of its nodes is not."""
    all_nics = list(parts.nics())
    all_nics[1] = replace(all_nics[1], up=False, state="DOWN")
    node = parts.node(nics=tuple(all_nics))
    spoiled = tuple(
        replace(rank, node=node) if rank.node is not None and rank.host != "h1" else rank
        for rank in ranks(4, 2)
    )
    findings = found(spoiled, asked=said(2), check="nics-up")
    assert [finding.host for finding in findings] == ["h2", "h3", "h4"]
    assert {finding.severity for finding in findings} == {ERROR}
    assert findings[0].claim == "1 of 2 fabric ports are active on h2"


def test_hosts_of_another_kind_than_the_preset_s(ranks: Ranks, found: Found) -> None:
    findings = found(ranks(2, 2), asked=said(8), check="nics-up")
    assert [finding.claim for finding in findings] == [
        f"2 of 8 fabric ports are active on {host}" for host in ("h1", "h2")
    ]
    assert "--expect-use nics=0" in findings[0].hint
    assert found(ranks(2, 2), "mpi", asked=said(8), check="nics-up") == findings
    assert found(ranks(2, 2), asked=said(8, "socket"), check="nics-up") == []
    assert found(ranks(2, 2), asked=said(1), check="nics-up") == []


def test_a_port_whose_driver_tells_no_state_is_not_down(ranks: Ranks, found: Found, parts: Any) -> None:
    assert found(with_nic(ranks, parts, 4, 1, up=None, state=""), asked=said(2), check="nics-up") == []


def test_a_presets_count_of_ports_can_be_taken_away(ranks: Ranks, found: Found) -> None:
    settings = RunSettings(expect_use=("nics=8", "nics=0"))
    asked = make_preflight(settings)
    assert asked.expects == ("nics=0",)
    assert found(ranks(2, 2), asked=asked, check="nics-up") == []


def test_a_fabric_device_is_missing(ranks: Ranks, found: Found, parts: Any) -> None:
    finding = only(found(with_nic(ranks, parts, 4, 1)))
    assert finding.claim == "1 of 2 fabric ports are active on h3"
    assert "a device is missing" in finding.evidence


def test_an_interface_is_down_that_is_up_elsewhere(ranks: Ranks, found: Found, parts: Any) -> None:
    finding = only(found(with_nic(ranks, parts, 4, 2, up=False, state="down")))
    assert (finding.check, finding.severity, finding.host) == ("nics-up", WARNING, "h3")
    assert finding.claim == "eth0 is down on h3, and up on 3 other hosts"


def test_between_two_hosts_the_one_that_is_down_is_named(ranks: Ranks, found: Found, parts: Any) -> None:
    nics = parts.nics()
    down = (*nics[:2], replace(nics[2], up=False, state="down"), *nics[3:])
    finding = only(found(ranks(2, 1, at=1, node=parts.node(nics=down))))
    assert finding.claim == "eth0 is down on h2, and up on 1 other host"


def test_what_is_down_everywhere_or_comes_and_goes_is_none_of_our_business(
    ranks: Ranks, found: Found, parts: Any
) -> None:
    assert found(with_nic(ranks, parts, 4, 3, up=True, state="up")) == []  # one of four has eth3 up
    assert found(with_nic(ranks, parts, 4, 4, up=True, state="up")) == []  # docker0


@pytest.mark.parametrize(
    ("environ", "claim"),
    [
        ({"NCCL_IB_HCA": "mlx5_9"}, "NCCL_IB_HCA names mlx5_9, which h1 does not have"),
        ({"NCCL_IB_HCA": "=mlx5"}, "NCCL_IB_HCA names mlx5, which h1 does not have"),
        ({"NCCL_IB_HCA": "mlx5_0:2"}, "NCCL_IB_HCA names mlx5_0:2, which h1 does not have"),
        (
            {"NCCL_SOCKET_IFNAME": "eth3"},
            "NCCL_SOCKET_IFNAME names eth3 on h1, and eth3 is down there",
        ),
        ({"UCX_NET_DEVICES": "mlx5_7:1"}, "UCX_NET_DEVICES names mlx5_7:1, which h1 does not have"),
        ({"FI_TCP_IFACE": "hsn0"}, "FI_TCP_IFACE names hsn0, which h1 does not have"),
    ],
)
def test_a_nic_that_is_asked_for_and_not_there(
    ranks: Ranks, found: Found, environ: dict[str, str], claim: str
) -> None:
    finding = only(found(ranks(1, 1, at=0, environ=environ)))
    assert (finding.check, finding.severity, finding.claim) == ("nics-asked-for", ERROR, claim)


def test_the_loopback_interface_joins_no_hosts(ranks: Ranks, found: Found) -> None:
    assert found(ranks(1, 2, at=(0, 1), environ={"NCCL_SOCKET_IFNAME": "lo"})) == []
    assert found(ranks(2, 1, at=(0, 1), environ={"NCCL_SOCKET_IFNAME": "lo,eth0"})) == []
    findings = found(ranks(2, 1, at=(0, 1), environ={"NCCL_SOCKET_IFNAME": "lo"}))
    assert {finding.claim for finding in findings} == {
        "NCCL_SOCKET_IFNAME names lo, over which no other host is reached"
    }


@pytest.mark.parametrize(
    "environ",
    [
        {"NCCL_IB_HCA": "^mlx5_9"},
        {"NCCL_IB_HCA": "=mlx5_0,mlx5_1:1"},
        {"NCCL_SOCKET_IFNAME": "^docker,lo"},
        {"NCCL_SOCKET_IFNAME": "=eth0"},
        {"NCCL_SOCKET_IFNAME": "lo"},
        {"UCX_NET_DEVICES": "all"},
        {"UCX_NET_DEVICES": "mlx5_0:1,eth0"},
    ],
)
def test_nics_that_are_there_or_left_out(ranks: Ranks, found: Found, environ: dict[str, str]) -> None:
    assert found(ranks(1, 1, at=0, environ=environ)) == []


def test_a_name_may_keep_nccl_away_from_infiniband(ranks: Ranks, found: Found) -> None:
    wanted = Preflight("run", expects=("net=socket",))
    assert found(ranks(1, 1, at=0, environ={"NCCL_IB_HCA": "eth0"}), asked=wanted) == []
    assert found(ranks(1, 1, at=0, environ={"NCCL_IB_HCA": "eth0"})) != []


def test_variables_of_nccl_do_not_concern_mpi(ranks: Ranks, found: Found) -> None:
    assert found(ranks(1, 1, at=0, environ={"NCCL_IB_HCA": "mlx5_9"}), "mpi") == []


@pytest.mark.parametrize(
    ("changed", "claim"),
    [
        (
            {"rate_gbit_per_s": 200.0},
            "rate of mlx5_1:1: 200 Gbit/s on h3, 400 Gbit/s on h1, h2, h4",
        ),
        ({"lanes": 8}, "PCIe lanes of mlx5_1:1: 8 of 16 on h3, 16 of 16 on h1, h2, h4"),
    ],
)
def test_a_slower_port(ranks: Ranks, found: Found, parts: Any, changed: dict[str, Any], claim: str) -> None:
    finding = only(found(with_nic(ranks, parts, 4, 1, **changed)))
    assert (finding.check, finding.severity, finding.claim) == ("nic-rates", WARNING, claim)
    assert finding.host == "h3"


def test_strict_makes_errors_of_warnings_and_the_worst_comes_first(
    ranks: Ranks, found: Found, parts: Any
) -> None:
    spoiled = with_nic(ranks, parts, 4, 1, up=False, state="DOWN", lanes=8)
    severities = [finding.severity for finding in found(spoiled)]
    assert severities == [ERROR, ERROR, WARNING]
    strict = found(spoiled, asked=Preflight("run", strict=True))
    assert [finding.severity for finding in strict] == [ERROR] * 3
