"""A hunt by one NIC: hosts that lack it are named, and bytes that went another way make it undecided."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from busbw.errors import ExitCode, SiteError
from busbw.machine.nics import NetworkInterface, Nics, RdmaDevice, RdmaPort
from busbw.model.finding import Finding, Severity
from busbw.model.hunt import Hunt
from busbw.rank.hunt.nic import check_nic, has_address, judge, named
from busbw.rank.hunt.rounds import _by_nic

HUNT = Hunt("isolate", 1_000_000, nic="eth1")
ALL = {"eth0": 0, "eth1": 50_000_000}


def interface(name: str, state: str) -> NetworkInterface:
    return NetworkInterface(name, state, None, None, "", "", None)


NICS = Nics(
    rdma=(
        RdmaDevice(
            *("mlx5_0", "infiniband", "", "", "", None, ()),
            (
                RdmaPort(1, "ACTIVE", "LinkUp", "InfiniBand", None, ""),
                RdmaPort(2, "DOWN", "Disabled", "InfiniBand", None, ""),
            ),
        ),
        RdmaDevice(
            *("ibp1s0", "infiniband", "", "", "", None, ()),
            (RdmaPort(1, "ACTIVE", "LinkUp", "InfiniBand", None, ""),),
        ),
    ),
    cxi=(),
    interfaces=(interface("eth0", "up"), interface("eth1", "down"), interface("eth2", "unknown")),
)


@pytest.mark.parametrize(
    ("nic", "said"),
    [
        ("eth0", ""),
        ("eth2", "eth2 has no address on h4"),
        ("mlx5_0", ""),
        ("mlx5_0:1", ""),
        ("mlx5_0:2", "mlx5_0:2 is down on h4"),
        ("mlx5_0:3", "h4 has no NIC mlx5_0:3"),
        ("ibp1s0", "ibp1s0 is an RDMA device on h4, not an interface"),
        ("ibp1s0:1", ""),
        ("eth1", "eth1 is down on h4"),
        ("eth9", "h4 has no NIC eth9 .it has eth0, eth1, eth2, mlx5_0:1, mlx5_0:2, ibp1s0:1."),
    ],
)
def test_a_host_without_the_nic_is_named(nic: str, said: str) -> None:
    def check() -> None:
        check_nic(nic, "h4", NICS, lambda name: name != "eth2")

    if not said:
        check()
        return
    with pytest.raises(SiteError, match=said) as caught:
        check()
    assert caught.value.host == "h4"


def test_an_address_is_one_by_which_others_reach_it(tmp_path: Path) -> None:
    table = tmp_path / "if_inet6"
    table.write_text(
        "fe80000000000000000000fffe000001 02 40 20 80 none0\n"
        "20010db8000000000000000000000001 03 40 00 80 none1\n"
    )
    assert has_address("lo", of_ipv6=table)
    assert not has_address("none0", of_ipv6=table)
    assert has_address("none1", of_ipv6=table)


@pytest.mark.parametrize(
    ("own", "is_by_it", "said"),
    [
        (ALL, True, "eth1 carried what was sent, by its counters: 50 to 50 MB a host"),
        (
            {"eth0": 50_000_000, "eth1": 1000},
            False,
            "could not decide: the traffic of h2 did not go through eth1",
        ),
        (
            {"eth0": 120_000_000, "eth1": 50_000_000},
            False,
            "could not decide: the traffic of h2 did not go through eth1",
        ),
        (
            {"eth0": 0, "eth1": 0},
            False,
            "could not decide: the traffic of h2 did not go through eth1",
        ),  # NVLink, memory
        ({"eth0": 0}, True, "not covered: eth1 has no counters on h2"),
    ],
)
def test_what_the_counters_tell(own: dict[str, int], is_by_it: bool, said: str) -> None:
    finding, found = judge(HUNT, 5, {"h1": ALL, "h2": own})
    assert finding is not None
    assert found is is_by_it
    assert finding.claim.startswith(said)


def test_ports_of_a_device_count_together_where_none_is_named() -> None:
    own = {"mlx5_0:1": 20_000_000, "mlx5_0:2": 20_000_000, "mlx5_1:1": 0}
    assert judge(Hunt("isolate", 1_000_000, nic="mlx5_0"), 5, {"h1": own})[1]
    assert not judge(Hunt("isolate", 1_000_000, nic="mlx5_1"), 5, {"h1": own})[1]
    assert judge(HUNT, 0, {"h1": own}) == (None, True)  # nothing was to be sent


def test_findings_name_the_nic() -> None:
    slow = Finding(Severity.ERROR, "h4: 30.0% less bandwidth than the others have (95 %: 29% to 31%)")
    assert named(slow, "eth1").startswith("h4 by eth1: 30.0% less bandwidth than the others have (95 %: 29%")
    assert named(Finding(Severity.INFO, "not covered: a"), "eth1") == "not covered: a"


def test_nothing_is_said_of_hosts_where_bytes_went_another_way() -> None:
    found = [Finding(Severity.ERROR, "h4: 30% less bandwidth")]
    told: dict[str, Any] = {"decision": "slow", "rounds": 5, "suspects": [1], "exclude": {"slurm": "h4"}}
    other = {"eth0": 50_000_000, "eth1": 0}
    said, code = _by_nic(HUNT, told, found, {"h1": ALL, "h2": other}, ExitCode.BAD_VERDICT)
    assert code is ExitCode.UNDECIDED
    assert (told["decision"], told["suspects"], told["exclude"]) == ("undecided", [], {})
    assert [each.severity for each in said] == [Severity.WARNING]
    told |= {"decision": "slow"}
    said, code = _by_nic(HUNT, told, found, {"h1": ALL, "h2": ALL}, ExitCode.BAD_VERDICT)
    assert (code, told["decision"]) == (ExitCode.BAD_VERDICT, "slow")
    assert said[0].claim == "h4 by eth1: 30% less bandwidth"
