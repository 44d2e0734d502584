"""The rules on NICs, ports and interfaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from busbw.machine.preflight.facts import NicFacts, RankFacts
from busbw.model.finding import Finding, Severity
from busbw.model.plan import Preflight

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


@pytest.mark.parametrize(
    ("changed", "evidence"),
    [
        ({"up": False, "state": "DOWN"}, "not active: mlx5_1:1 DOWN"),
        ({}, "the kernel lists no others: a device is missing"),
    ],
)
def test_a_fabric_port_is_down_or_gone(
    ranks: Ranks, found: Found, parts: Any, changed: dict[str, Any], evidence: str
) -> None:
    finding = only(found(with_nic(ranks, parts, 4, 1, **changed)))
    assert (finding.check, finding.severity, finding.host) == ("nics-up", ERROR, "h3")
    assert (finding.claim, finding.evidence) == ("1 of 2 fabric ports are active on h3", evidence)
    assert "--expect-use nics=0" in finding.hint


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


def test_an_interface_is_down_that_is_up_elsewhere(ranks: Ranks, found: Found, parts: Any) -> None:
    finding = only(found(with_nic(ranks, parts, 4, 2, up=False, state="down")))
    assert (finding.check, finding.severity, finding.host) == ("nics-up", WARNING, "h3")
    assert finding.claim == "eth0 is down on h3, and up on 3 other hosts"


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
        ({"NCCL_SOCKET_IFNAME": "eth3"}, "NCCL_SOCKET_IFNAME names eth3 on h1, and eth3 is down there"),
        ({"UCX_NET_DEVICES": "mlx5_7:1"}, "UCX_NET_DEVICES names mlx5_7:1, which h1 does not have"),
        ({"UCX_NET_DEVICES": "mlx5_*:1"}, "UCX_NET_DEVICES names mlx5_*:1, which h1 does not have"),
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
        "NCCL_SOCKET_IFNAME names lo, which reaches no other host"
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
        {"UCX_NET_DEVICES": "mlx5_0"},
        {"UCX_NET_DEVICES": "mlx5_[0-1]:1,eth[0-0]"},
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


def fabric_of(down: tuple[int, ...] = ()) -> tuple[NicFacts, ...]:
    """Nine ports, the last for storage, an interface that is up and one that is not."""
    ports = [
        NicFacts(name, "rdma", at not in down, "DOWN" if at in down else "ACTIVE", 400.0)
        for at, name in enumerate(f"mlx5_{at}:1" for at in range(9))
    ]
    return (*ports, NicFacts("eth0", "net", True, "up", 25.0), NicFacts("eth1", "net", False, "down"))


def hosts_with(
    ranks: Ranks, parts: Any, nics: list[tuple[NicFacts, ...]], environ: dict[str, str]
) -> tuple[RankFacts, ...]:
    """A host of two ranks for each."""
    return tuple(
        replace(
            rank,
            environ=environ,
            node=None if rank.node is None else parts.node(nics=nics[int(rank.host[1:]) - 1]),
        )
        for rank in ranks(len(nics), 2)
    )


@pytest.mark.parametrize("expects", [(), ("nics=8",), ("nics=0",)])
@pytest.mark.parametrize(
    "environ",
    [{"NCCL_IB_HCA": "mlx5"}, {"NCCL_IB_HCA": "mlx5,ibp"}, {"NCCL_SOCKET_IFNAME": "eth,en,bond"}, {}],
)
def test_a_prefix_passes_over_what_is_down_or_absent(
    ranks: Ranks, found: Found, parts: Any, environ: dict[str, str], expects: tuple[str, ...]
) -> None:
    """As NCCL does. Of what is up nowhere there is a note at most, one for all hosts."""
    everywhere = hosts_with(ranks, parts, [fabric_of(down=(8,))] * 4, environ)
    findings = found(everywhere, asked=Preflight("run", expects=expects))
    assert {finding.severity for finding in findings} <= {INFO}
    assert len(findings) == sum("," in value for value in environ.values()) + ("bond" in str(environ))


def test_one_list_of_prefixes_serves_unlike_hosts(ranks: Ranks, found: Found, parts: Any) -> None:
    nics = [fabric_of(), (*fabric_of()[:9], NicFacts("ens1", "net", True, "up", 25.0))]
    assert found(hosts_with(ranks, parts, nics, {"NCCL_SOCKET_IFNAME": "eth,en"})) == []


def test_where_nothing_named_is_up_what_is_down_is_shown(ranks: Ranks, found: Found, parts: Any) -> None:
    """Four active ports that were not named do not hide it."""
    spoiled = hosts_with(ranks, parts, [fabric_of(down=(8,))] * 2, {"NCCL_IB_HCA": "mlx5_8"})
    findings = found(spoiled, check="nics-asked-for")
    assert [(finding.severity, finding.host) for finding in findings] == [(ERROR, "h1"), (ERROR, "h2")]
    assert findings[0].claim == "NCCL_IB_HCA names mlx5_8 on h1, and mlx5_8:1 is down there"
    assert findings[0].evidence.startswith("there: mlx5_8:1 DOWN, ")


@pytest.mark.parametrize(("backend", "variable"), [("mpi", "UCX_NET_DEVICES"), ("nccl", "NCCL_IB_HCA")])
def test_a_whole_name_that_is_missed_is_a_warning(
    ranks: Ranks, found: Found, parts: Any, backend: str, variable: str
) -> None:
    """Its library goes on with the others."""
    value = "mlx5_0:1,mlx5_9:1"
    environ = {variable: value if variable.startswith("UCX") else f"={value}"}
    finding = only(found(hosts_with(ranks, parts, [fabric_of()] * 2, environ), backend))
    assert (finding.check, finding.severity) == ("nics-asked-for", WARNING)
    assert finding.claim == f"{variable} names mlx5_9:1, but no such interface is up on h1, h2"


def test_a_port_that_was_named_is_down_on_one_host(ranks: Ranks, found: Found, parts: Any) -> None:
    environ = {"NCCL_IB_HCA": "=" + ",".join(f"mlx5_{at}" for at in range(8))}
    spoiled = hosts_with(ranks, parts, [fabric_of()] * 3 + [fabric_of(down=(3,))], environ)
    for asked in (None, said(8)):
        error, warning = found(spoiled, asked=asked)
        assert (error.severity, error.claim) == (ERROR, "7 of 8 fabric ports are active on h4")
        assert (warning.severity, warning.host) == (WARNING, "h4")
    assert [finding.severity for finding in found(spoiled, asked=said(0))] == [WARNING]


@pytest.mark.parametrize(
    ("backend", "environ"),
    [
        ("nccl", {"NCCL_IB_HCA": "=" + ",".join(f"mlx5_{at}" for at in range(8))}),
        ("nccl", {"NCCL_IB_HCA": "^mlx5_8"}),
        ("nccl", {"NCCL_IB_HCA": "^=mlx5_8:1"}),
        ("nccl", {"nccl.conf: NCCL_IB_HCA": "^mlx5_8"}),
        ("nccl", {"NCCL_NET": "Socket"}),
        ("mpi", {"UCX_NET_DEVICES": "mlx5_0:1,eth0"}),
    ],
)
def test_a_port_that_nobody_uses_is_down_on_one_host(
    ranks: Ranks, found: Found, parts: Any, backend: str, environ: dict[str, str]
) -> None:
    spoiled = hosts_with(ranks, parts, [fabric_of()] * 3 + [fabric_of(down=(8,))], environ)
    for words in ((), ("nics=8",), ("nics=9",), ("nics=0",)):
        asked = Preflight("run", expects=words)
        assert found(spoiled, backend, asked=asked) == []


def test_infiniband_that_is_switched_off_has_no_ports(ranks: Ranks, found: Found, parts: Any) -> None:
    """A plugin has devices of its own, which that variable does not concern."""
    spoiled = hosts_with(ranks, parts, [fabric_of()] * 3 + [fabric_of(down=(8,))], {"NCCL_IB_DISABLE": "1"})
    assert only(found(spoiled)).check == "nics-up"
    plain = tuple(replace(rank, net_plugin="") for rank in spoiled)
    assert found(plain) == []
    for name, value in (("FI_PROVIDER", "efa"), ("NCCL_NET_PLUGIN", "ofi")):
        asking = tuple(replace(rank, environ={**rank.environ, name: value}) for rank in plain)
        assert "nics-up" in [finding.check for finding in found(asking)]
    assert "nics-up" in [
        finding.check for finding in found(plain, asked=Preflight("run", expects=("net=ofi",)))
    ]


def test_ports_that_only_one_rank_of_a_host_uses_count(ranks: Ranks, found: Found, parts: Any) -> None:
    """Each rank may be given its own."""
    spoiled = hosts_with(ranks, parts, [fabric_of()] * 3 + [fabric_of(down=(1,))], {})
    spoiled = tuple(replace(rank, environ={"NCCL_IB_HCA": f"mlx5_{rank.local_rank}"}) for rank in spoiled)
    assert {finding.claim for finding in found(spoiled) if finding.severity is ERROR} == {
        "NCCL_IB_HCA names mlx5_1 on h4, and mlx5_1:1 is down there",
        "1 of 2 fabric ports are active on h4",
    }


@pytest.mark.parametrize(
    ("changed", "claim"),
    [
        ({"rate_gbit_per_s": 200.0}, "rate of mlx5_1:1: 200 Gbit/s on h3, 400 Gbit/s on h1, h2, h4"),
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
    assert severities == [ERROR, WARNING]
    strict = found(spoiled, asked=Preflight("run", strict=True))
    assert [finding.severity for finding in strict] == [ERROR] * 2
