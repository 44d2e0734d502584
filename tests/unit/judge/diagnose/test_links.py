"""Were all links used: readings with known traffic, among them those of the published two-node p4de case."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from busbw_testing.compared import record_of
from busbw_testing.diagnosed import CALLS, burst, conclusions, every_conclusion

from busbw.judge.wires import Wires
from busbw.model.conclusion import Answer, Question
from busbw.model.finding import Severity
from busbw.model.record import RunRecord
from busbw.model.traffic import Burst, Link

SIZE = 25 * 2**20
EFA = ("rdmap16s27", "rdmap32s27", "rdmap144s27", "rdmap160s27")
P4DE = Wires(network_gb_per_s=50.0, nics=4, source="preset aws/p4de.24xlarge")


def two_nodes(*bursts: Burst, **fields: object) -> RunRecord:
    """16 ranks on two nodes, 1896.5 us a call: the source's run."""
    return record_of({SIZE: 1896.5}, ranks=16, hosts=2, bursts=bursts, **fields)  # type: ignore[arg-type]


def evenly(rate: float, devices: tuple[str, ...] = EFA) -> dict[str, dict[str, float]]:
    return {host: dict.fromkeys(devices, rate) for host in ("node0", "node1")}


def test_p4de_four_nics_of_3_35_are_27_percent_of_line_rate_and_the_algbw() -> None:
    """Four NICs of 3.35 GB/s are 13.4 GB/s a node: what two nodes must exchange is the message, so that is
    the algbw (13.8), and not one GPU's bandwidth.
    """
    found = conclusions(two_nodes(burst(evenly(3.35))), wires=P4DE)
    used = found["links.used"]
    assert used.answer is Answer.YES
    assert "all 4 efa links of each host carried traffic" in used.claim
    assert "4 x 3.35 GB/s, 27% of 4 lines' 50 GB/s" in used.claim
    assert found["links.even"].answer is Answer.YES
    wire = {fact.name: fact.value for fact in found["expected.wire"].facts}
    assert wire["network rate of a node"] == wire["algbw"] == pytest.approx(13.82, abs=0.01)
    assert "the algbw, 3.46 over each of 4 NICs: 28% of their rate" in found["expected.wire"].claim


def test_the_bytes_of_a_call_are_held_against_those_that_must_move() -> None:
    rate = SIZE * CALLS / 0.3 / 1e9 / 4  # one message a call over four NICs
    facts = {
        fact.name: fact.value for fact in conclusions(two_nodes(burst(evenly(rate))))["links.bytes"].facts
    }
    assert facts["bytes a call"] == pytest.approx(SIZE, rel=0.001)
    assert facts["bytes that must move"] == SIZE
    half = conclusions(two_nodes(burst(evenly(rate / 2))))["links.bytes"]
    assert (half.answer, half.severity) == (Answer.NO, Severity.WARNING)
    assert "50% of the least that must move: some went a way that these counters do not see" in half.claim
    ring = replace(two_nodes(burst(evenly(rate))), results=())  # no algorithm, but the case is known
    assert conclusions(ring)["links.bytes"].answer is Answer.YES


def test_one_that_carried_nothing_is_named_with_its_host() -> None:
    carried = evenly(3.35)
    carried["node1"]["rdmap144s27"] = 0.0
    used = conclusions(two_nodes(burst(carried)))["links.used"]
    assert (used.answer, used.severity, used.host) == (Answer.NO, Severity.ERROR, "node1")
    assert "3 of 4 efa links carried traffic on 1 of 2 hosts" in used.claim
    assert "nothing on rdmap144s27 port 1" in used.claim


def test_what_flows_anyway_is_not_ours() -> None:
    """A chatty NIC that carries as much without the burst took no part; control traffic is no part either."""
    carried = {"node0": {"eth0": 0.0, "eth1": 1.0}, "node1": {"eth0": 0.0, "eth1": 1.0}}
    for idle in (0.0, 0.05):
        used = conclusions(two_nodes(burst(carried, kind="ethernet", idle=idle)))["links.used"]
        assert "1 of 2 ethernet links carried traffic on 2 of 2 hosts" in used.claim
    carried["node0"]["eth0"] = carried["node1"]["eth0"] = 1e-6  # a kB a window
    assert "1 of 2" in conclusions(two_nodes(burst(carried, kind="ethernet")))["links.used"].claim


def test_uneven_beyond_the_noise_and_within_it() -> None:
    carried = {"node0": {"a": 1.3, "b": 0.7}, "node1": {"a": 1.3, "b": 0.7}}
    even = conclusions(two_nodes(burst(carried)))["links.even"]
    assert (even.answer, even.severity) == (Answer.NO, Severity.WARNING)
    assert "a port 1 carries 30.0% more than an even share on node0" in even.claim
    noisy = conclusions(two_nodes(burst(carried, jitter=0.4)))["links.even"]
    assert (noisy.answer, noisy.severity) == (Answer.YES, Severity.INFO)


def test_bytes_over_ethernet_beside_idle_fabric() -> None:
    tcp = burst(evenly(1.0, ("eth0",)), kind="ethernet")
    fabric = burst(evenly(0.0))
    found = conclusions(two_nodes(Burst(0, tcp.windows, (*tcp.links, *fabric.links))))
    assert found["links.bypassed"].severity is Severity.ERROR
    assert "2 hosts have 8 ports of efa" in found["links.bypassed"].claim


def test_a_slow_management_port_is_no_fellow() -> None:
    fast = burst(evenly(10.0, ("eth1",)), kind="ethernet", gb_per_s=12.5)
    slow = burst(evenly(0.0, ("eth0",)), kind="ethernet", gb_per_s=0.125)
    found = conclusions(two_nodes(Burst(0, fast.windows, (*fast.links, *slow.links))))
    assert "all 1 ethernet links of each host carried traffic (1 x 10 GB/s, 80%" in found["links.used"].claim


def test_groups_move_what_nobody_can_say_without_their_places() -> None:
    groups = (tuple(range(8)), tuple(range(8, 16)))
    found = conclusions(two_nodes(burst(evenly(3.35)), plan={"groups": groups}), wires=P4DE)
    assert "links.bytes" not in found
    assert "expected.wire" not in found
    assert found["links.used"].answer is Answer.YES


def test_nvlink_of_one_node_against_its_algorithm() -> None:
    """Two GPUs, NVLS-less ring: S a call and direction over 18 links each; LL doubles it."""
    size, links = 64 * 2**20, 18

    def gpu(number: int, factor: float) -> list[Link]:
        whole = int(size * CALLS * factor / links)
        counted = (0, *[whole] * 3)
        return [
            Link("node0", "nvlink", f"GPU {number}", f"link {link}", counted, counted, 26.6)
            for link in range(links)
        ]

    def found(algorithm: str, factor: float) -> str:
        traffic = Burst(0, burst({}).windows, (*gpu(0, factor), *gpu(1, factor)))
        record = record_of({size: 200.0}, bursts=(traffic,), algorithm=algorithm)
        return conclusions(record)["links.bytes"].claim

    assert "a GPU moved 64.0 MiB a call, 100% of what must move" in found("RING SIMPLE", 1.0)
    assert "100% of" in found("RING LL", 2.0)
    assert "50% of" in found("RING LL", 1.0)


def test_not_observable_without_readings() -> None:
    found = conclusions(two_nodes())["links.used"]
    assert (found.answer, found.claim) == (Answer.NOT_OBSERVABLE, "link counters were not read")
    assert "measure with --evidence counters" in found.hint
    asked = conclusions(two_nodes(plan={"evidence": ("counters",)}))["links.used"].hint
    assert "measure with" not in asked
    assert "let the run finish" in asked  # it ended before they were read
    alone = record_of({8: 1.0}, plan={"backend": "mpi"})
    assert "no link between hosts is needed" in conclusions(alone)["links.used"].claim


def test_a_case_without_a_payload_says_nothing_of_links() -> None:
    """A size that was rounded to 0 B, or a barrier: its few bytes are control traffic."""
    reading = burst(evenly(0.001))
    for operation in ("all_gather", "all_reduce", "barrier"):
        record = two_nodes(reading)
        case = replace(record.plan.cases[0], collective=operation, size_bytes=0, count=0)
        found = conclusions(replace(record, plan=replace(record.plan, cases=(case,))), wires=P4DE)
        assert found["links.used"].answer is Answer.NOT_OBSERVABLE
        assert found["links.used"].hint == ""
        assert [check for check in found if check.startswith("links.")] == ["links.used"]


@pytest.mark.parametrize(
    ("backend", "version", "named", "not_named"),
    [
        ("mpi", "MPICH 5.0.2", "UCX_MAX_RNDV_RAILS", "NCCL"),
        ("mpi", "Open MPI 5.0.8", "OMPI_MCA_btl_tcp_if_include", "NCCL"),
        ("mpi", "Intel(R) MPI Library 2021", "own interface flags", "NCCL"),
        ("nccl", "2.28.9", "NCCL_IB_HCA", "UCX"),
    ],
)
def test_what_to_try_is_of_the_library_that_ran(
    backend: str, version: str, named: str, not_named: str
) -> None:
    carried = {host: {"eth0": 1.0, "eth1": 0.0} for host in ("node0", "node1")}
    record = two_nodes(burst(carried, kind="ethernet"), version=version, plan={"backend": backend})
    hint = conclusions(record)["links.used"].hint
    assert named in hint
    assert not_named not in hint


def test_the_starved_link_is_named_and_not_its_fellows() -> None:
    rates = dict(zip(EFA, (1.27, 1.27, 1.27, 0.2), strict=True))
    even = conclusions(two_nodes(burst({"node0": rates, "node1": dict.fromkeys(EFA, 1.0)})))["links.even"]
    assert (even.severity, even.host) == (Severity.WARNING, "node0")
    assert even.claim.startswith("rdmap160s27 port 1 carries 15.7% of the median link")
    assert "cable" in even.hint


def test_more_than_the_observed_algorithm_sends_is_told() -> None:
    """Where it was observed: which one an MPI library took is not known, and nor is its model then."""
    rate = SIZE * CALLS / 0.3 / 1e9 / 4 * 15 / 8  # a ring over 16 ranks
    for factor, answer in ((1.0, Answer.YES), (1.08, Answer.YES), (2.0, Answer.NO)):
        record = two_nodes(burst(evenly(rate * factor)), algorithm="RING SIMPLE")
        found = conclusions(record)["links.bytes"]
        assert found.answer is answer, factor
        assert ("more than the algorithm that was observed" in found.claim) == (answer is Answer.NO)
        mpi = replace(record, plan=replace(record.plan, backend="mpi"))
        assert conclusions(mpi)["links.bytes"].answer is Answer.YES


def test_a_little_less_or_traffic_of_others_before_the_calls_is_no_missing_way() -> None:
    rate = SIZE * CALLS / 0.3 / 1e9 / 4
    slow = evenly(rate)
    slow["node0"][EFA[0]] = 0.97 * rate
    assert conclusions(two_nodes(burst(slow)))["links.bytes"].answer is Answer.YES
    quiet = burst(evenly(rate))
    foreign = int(0.2 * rate * 1e9 * quiet.windows[0].seconds)  # in the rest alone
    first, *others = quiet.links
    first = replace(first, sent_bytes=(foreign, *first.sent_bytes[1:]))
    first = replace(first, received_bytes=(foreign, *first.received_bytes[1:]))
    found = conclusions(two_nodes(replace(quiet, links=(first, *others))))
    assert found["links.bytes"].answer is Answer.YES


def test_ten_healthy_readings_of_two_nodes_warn_of_nothing() -> None:
    """Four NICs a node that differ by half a percent, headers, and a little traffic of others."""
    draw = np.random.default_rng(11)
    for _ in range(10):
        rate = SIZE * CALLS / 0.3 / 1e9 / 4 * 1.02
        carried = {
            node: {nic: rate * float(np.exp(draw.normal(0, 0.005))) for nic in EFA}
            for node in ("node0", "node1")
        }
        reading = burst(
            carried, idle=float(draw.uniform(0, 0.02)) * rate, jitter=float(draw.uniform(0, 0.01))
        )
        told = every_conclusion(two_nodes(reading))
        own = [each for each in told if each.question is Question.LINKS]
        assert {each.severity for each in own} == {Severity.INFO}, own
        assert {"links.used", "links.even", "links.bytes"} <= {each.check for each in own}
