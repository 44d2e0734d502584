"""Ports that are not as their fellows, hosts of one NVLink domain, and what must move at least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from busbw_testing.compared import record_of
from busbw_testing.diagnosed import CALLS, SECONDS, WINDOWS, conclusions, every_conclusion

from busbw.judge.wires import Wires
from busbw.model.conclusion import Answer, Conclusion
from busbw.model.finding import Severity
from busbw.model.record import RunRecord
from busbw.model.traffic import Burst, Link

SIZE = 2**30
MESSAGE = SIZE * CALLS / SECONDS / 1e9  # GB/s of one message a call
PORTS = tuple(f"mlx5_{number}" for number in range(8))
HOSTS = ("node0", "node1", "node2", "node3")


def link(
    host: str, device: str, sent: float, received: float | None = None, *, kind: str = "infiniband",
    name: str = "port 1", gb_per_s: float | None = 50.0, **more: object,
) -> Link:  # fmt: skip
    def counted(rate: float) -> tuple[int, ...]:
        return (0, *(int(rate * 1e9 * SECONDS * noise) for noise in (0.999, 1.0, 1.001)))

    back = counted(sent if received is None else received)
    return Link(host, kind, device, name, counted(sent), back, gb_per_s, **more)  # type: ignore[arg-type]


def evenly(host: str, devices: Sequence[str] = PORTS, total: float = 2 * MESSAGE) -> list[Link]:
    return [link(host, device, total / len(devices)) for device in devices]


def run_of(links: Sequence[Link], hosts: int = 4, ranks: int = 32, **fields: object) -> RunRecord:
    return record_of(
        {SIZE: 1e4}, ranks=ranks, hosts=hosts, bursts=(Burst(0, WINDOWS, tuple(links)),), **fields
    )  # type: ignore[arg-type]


NCCL = {"backend": "nccl"}
HEALTHY = [each for host in HOSTS for each in evenly(host)]


def healthy_but(host: str, device: str, **otherwise: object) -> RunRecord:
    """A run whose links are healthy, one of them otherwise."""
    return run_of([
        replace(each, **otherwise) if (each.host, each.device) == (host, device) else each
        for each in HEALTHY
    ])  # fmt: skip


def test_a_port_that_is_down_is_named_with_its_host() -> None:
    links = [each for each in HEALTHY if (each.host, each.device) != ("node3", "mlx5_2")]
    missing = conclusions(run_of(links))["links.missing"]
    assert (missing.severity, missing.answer, missing.host) == (Severity.WARNING, Answer.NO, "node3")
    assert "node3 has 7 of 8 (no mlx5_2 port 1)" in missing.claim


def test_a_port_that_trained_at_half_its_rate_is_no_management_port() -> None:
    found = conclusions(healthy_but("node1", "mlx5_3", gb_per_s=25.0))
    assert "all 8 infiniband links of each host" in found["links.used"].claim
    assert (found["links.rate"].answer, found["links.rate"].host) == (Answer.NO, "node1")
    assert "mlx5_3 port 1 of node1 has 25 of 50 GB/s" in found["links.rate"].claim


def test_why_a_link_cannot_be_read_is_shown_and_it_is_not_missing() -> None:
    found = conclusions(healthy_but("node1", "mlx5_3", note="a counter went backwards"))
    assert "of node1 (a counter went backwards)" in found["links.used"].evidence
    assert "links.missing" not in found
    assert "links.bytes" not in found  # nobody knows what that port moved


def test_losses_during_the_burst_are_told_and_waits_are_not() -> None:
    def told(**events: int) -> dict[str, Conclusion]:
        return conclusions(healthy_but("node2", "mlx5_1", events=events))

    lossy = told(port_xmit_discards=1000, out_of_sequence=7)["links.events"]
    assert (lossy.severity, lossy.answer, lossy.host) == (Severity.WARNING, Answer.NO, "node2")
    assert "port_xmit_discards 1000 on mlx5_1 port 1 of node2" in lossy.claim
    assert "out_of_sequence 7" in lossy.claim
    reordered = told(out_of_sequence=7)["links.events"]
    assert (reordered.severity, reordered.answer) == (Severity.INFO, Answer.YES)
    assert "adaptive routing" in reordered.claim
    assert "links.events" not in told(port_xmit_wait=10**6, rx_dropped=1)


@pytest.mark.parametrize(
    ("variables", "backend", "answer"),
    [
        ({}, "nccl", Answer.NO),
        ({"NCCL_IB_HCA": "=" + ",".join(f"{port}:1" for port in PORTS)}, "nccl", Answer.YES),
        ({"NCCL_IB_HCA": "^mlx5_8,mlx5_9"}, "nccl", Answer.YES),
        ({"NCCL_IB_HCA": "mlx5"}, "nccl", Answer.NO),
        ({"UCX_NET_DEVICES": ",".join(f"{port}:1" for port in PORTS)}, "mpi", Answer.YES),
        ({"UCX_NET_DEVICES": "all"}, "mpi", Answer.NO),
    ],
)
def test_ports_that_a_setting_keeps_out_need_not_carry(
    variables: dict[str, str], backend: str, answer: Answer
) -> None:
    storage = [link(host, device, 0.0) for host in HOSTS for device in ("mlx5_8", "mlx5_9")]
    record = run_of([*HEALTHY, *storage], variables=variables, plan={"backend": backend})
    used = conclusions(record)["links.used"]
    assert used.answer is answer
    if answer is Answer.YES:
        assert "leaves out mlx5_8 port 1, mlx5_9 port 1" in used.evidence


def test_leaves_of_a_tree_move_less_than_its_mean() -> None:
    """Reduce, then broadcast, over four nodes: two of them send and receive the message once."""
    shares = {"node0": (2, 2), "node1": (1, 1), "node2": (2, 2), "node3": (1, 1)}
    tree = [link(host, "mlx5_0", sent * MESSAGE, back * MESSAGE) for host, (sent, back) in shares.items()]
    told = conclusions(run_of(tree, ranks=4))["links.bytes"]
    assert (told.severity, told.answer) == (Severity.INFO, Answer.YES)
    assert "100% of the least that must move" in told.claim
    half = [
        link(host, "mlx5_0", sent * MESSAGE / 2, back * MESSAGE / 2) for host, (sent, back) in shares.items()
    ]
    assert conclusions(run_of(half, ranks=4))["links.bytes"].answer is Answer.NO
    unseen = conclusions(run_of([each for each in tree if each.host != "node0"], ranks=4))
    assert "links.bytes" not in unseen  # a mean over some of the nodes says nothing


@pytest.mark.parametrize(
    ("algorithm", "variables", "answer"),
    [
        ("NVLS SIMPLE", {}, Answer.YES),
        ("COLLNET_DIRECT SIMPLE", {}, Answer.YES),
        ("", {"NCCL_COLLNET_ENABLE": "1"}, Answer.YES),
        ("", {"NCCL_COLLNET_ENABLE": "0"}, Answer.NO),
        ("RING SIMPLE", {"NCCL_COLLNET_ENABLE": "1"}, Answer.NO),
    ],
)
def test_where_the_network_reduces_a_node_moves_the_message(
    algorithm: str, variables: dict[str, str], answer: Answer
) -> None:
    links = [each for host in HOSTS for each in evenly(host, total=MESSAGE)]
    record = run_of(links, algorithm=algorithm, variables=variables, plan=NCCL)
    assert conclusions(record)["links.bytes"].answer is answer


def rack(domain: str, nic: float = 0.0) -> RunRecord:
    """Two trays of four GPUs: NVLink carries it all, and Ethernet some kB/s of control."""
    must = MESSAGE * (1 + 1 / 8) / 18
    nvlinks = [
        link(f"node{tray}", f"GPU-{tray}{gpu}", must, kind="nvlink", name=f"link {number}")
        for tray in range(2) for gpu in range(4) for number in range(18)
    ]  # fmt: skip
    nics = [link(host, port, nic) for host in HOSTS[:2] for port in PORTS[:4]]
    control = [link(host, "eth0", 1e-5, kind="ethernet", name="", gb_per_s=12.5) for host in HOSTS[:2]]
    links, place = [*nvlinks, *nics, *control], {"nvlink_domain": domain}
    return run_of(links, hosts=2, ranks=8, algorithm="NVLS SIMPLE", place=place)


def test_hosts_of_one_nvlink_domain_need_no_nic() -> None:
    found = conclusions(rack("rack.1"))
    assert {each.severity for name, each in found.items() if name.startswith("links.")} == {Severity.INFO}
    assert "all 18 nvlink links of each GPU" in found["links.used"].claim
    assert "100% of what must move" in found["links.bytes"].claim.replace("  ", " ")


@pytest.mark.parametrize(
    ("nvlink", "severity", "answer"),
    [(1.0, Severity.INFO, Answer.UNDECIDED), (0.0, Severity.ERROR, Answer.NO)],
)
def test_nics_that_carried_nothing_where_nvlinks_may_join_the_hosts(
    nvlink: float, severity: Severity, answer: Answer
) -> None:
    """A healthy rack whose domain nobody told is not accused; one where nothing carried anything is."""
    links = [
        link(f"node{tray}", f"GPU-{tray}", nvlink * MESSAGE / 18, kind="nvlink", name=f"link {number}")
        for tray in range(2) for number in range(18)
    ]  # fmt: skip
    nics = [link(host, port, 0.0) for host in HOSTS[:2] for port in PORTS]
    record = run_of([*links, *nics], hosts=2, ranks=8)
    (told,) = [
        each for each in every_conclusion(record)
        if each.check == "links.used" and "infiniband" in each.claim
    ]  # fmt: skip
    assert (told.severity, told.answer) == (severity, answer)


def test_nvlinks_that_carried_nothing_are_an_error_with_the_setting() -> None:
    silent = [
        link("node0", f"GPU-{gpu}", 0.0, kind="nvlink", name=f"link {number}")
        for gpu in range(2) for number in range(18)
    ]  # fmt: skip
    record = run_of(silent, hosts=1, ranks=2, plan=NCCL, variables={"NCCL_P2P_DISABLE": "1"})
    used = conclusions(record)["links.used"]
    assert (used.severity, used.answer) == (Severity.ERROR, Answer.NO)
    assert used.claim.startswith("none of 36 nvlink links carried anything")
    assert "NCCL_P2P_DISABLE=1" in used.hint


@pytest.mark.parametrize(("domain", "told"), [("rack.1", True), ("", False)])
def test_a_rack_is_not_held_against_its_nics(domain: str, *, told: bool) -> None:
    """8 GPUs of two trays at 680 GB/s: 340 % of 200 GB/s of NICs, which they do not use."""
    took_us, place = SIZE / 680e3 * 2 * 7 / 8, {"nvlink_domain": domain}
    run = record_of({SIZE: took_us}, ranks=8, hosts=2, algorithm="RING", place=place)
    found = conclusions(run, wires=Wires(nvlink_gb_per_s=900.0, network_gb_per_s=200.0, nics=4))
    assert "expected.wire" not in found
    assert ("expected.limit" in found) is told
    assert not told or "76 % of what the wires" in found["expected.limit"].claim
