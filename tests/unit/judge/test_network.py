"""The network as a part of the kind of machine: what names it, what another one means, what sockets mean."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from busbw_testing.compared import record_of, reference_of
from busbw_testing.diagnosed import conclusions

from busbw.judge.compare_arms import device, make_arm, nodes
from busbw.judge.expectation import Judgement, expect
from busbw.judge.network import network_of
from busbw.judge.references.reference import Point, Reference
from busbw.machine.preflight.nccl_log import read_use, said_of
from busbw.model.conclusion import Answer
from busbw.model.finding import Severity
from busbw.model.network import FACT
from busbw.model.record import ImportSource, RankInfo, RunRecord, WorldInfo
from busbw.model.result import Status
from busbw.report.header_footer import header

SIZE = 2**20


def log(us: float = 10.0, hosts: int = 2, **evidence: list[str]) -> RunRecord:
    source = ImportSource("a.log", "nccl-tests", header={"gpus": "1"}, evidence=evidence)
    record = record_of({SIZE: us}, ranks=4, hosts=hosts)
    return replace(record, source=source, method=replace(record.method, time="busbw"))


def reference(network: str = "libfabric efa", **fields: object) -> Reference:
    known = {"kind": "log", "ranks": 4, "nodes": 2, "versions": {}, "network": network, **fields}
    return reference_of({SIZE: (10.0,)}, **known)


@pytest.mark.parametrize(
    ("evidence", "network"),
    [
        ({"network": ["FasTrak"]}, "FasTrak"),
        ({"network": ["IB"]}, "IB"),
        ({"network": ["IBext_v8"]}, "IB"),
        ({"network": ["NCCL RDMA Plugin v10"]}, "IB"),
        ({"network": ["SPCX"]}, "IB"),
        ({"network": ["Socket"]}, "sockets"),
        ({"network": ["AWS Libfabric"], "provider": ["efa"]}, "libfabric efa"),
        ({"network": ["Libfabric"], "provider": ["cxi"]}, "libfabric cxi"),
        ({"network": ["AWS Libfabric"], "provider": ["tcp;ofi_rxm"]}, "sockets"),
        ({"network": ["Libfabric"], "provider": ["verbs;ofi_rxm"]}, "IB"),
        ({"network": ["AWS Libfabric"]}, "libfabric"),
        ({"provider": ["tcp"]}, "sockets"),
        ({"network": ["IB"], "provider": ["efa"]}, "IB"),  # the plugin chose it, and NCCL left the plugin
        ({"network": ["IB", "Socket"]}, "IB and sockets"),
        ({}, ""),
    ],
)
def test_a_network_has_one_name_whoever_spells_it(evidence: dict[str, list[str]], network: str) -> None:
    assert network_of(log(**evidence)) == network


@pytest.mark.parametrize(
    ("provider", "ours"), [((), "FasTrak"), (("cxi",), "libfabric cxi"), (("efa",), ""), ((), "")]
)
def test_a_reference_of_another_network_says_nothing(provider: tuple[str, ...], ours: str) -> None:
    """Nor does the run's where its provider is not known: it may be any of libfabric's."""
    network = "Libfabric" if provider or not ours else ours
    found = expect([log(network=[network], provider=list(provider))], [reference()])
    assert found.count(Judgement.NO_REFERENCE) == bool(ours)
    assert found.unmatched == ({"known": f"its network is libfabric efa, the run's {ours}"} if ours else {})


def test_a_reference_on_one_host_is_used() -> None:
    one_host = log(hosts=1, network=["Socket"])
    found = expect([one_host], [reference(nodes=1)])
    assert found.count(Judgement.EXPECTED) == 1
    assert not any("sockets" in note for note in found.notes)


def test_a_network_that_the_run_does_not_say_is_noted() -> None:
    found = expect([log()], [reference()])
    assert found.count(Judgement.EXPECTED) == 1
    assert "the run does not say its network; that of known is libfabric efa" in found.notes


def test_a_reference_of_another_network_is_used_where_it_was_named_and_a_note_says_so() -> None:
    found = expect([log(us=100.0, network=["IB"])], [reference()], named=True)
    assert found.count(Judgement.BELOW) == 1
    assert any("of another machine, and you named it: its network is" in note for note in found.notes)


@pytest.mark.parametrize(
    "evidence",
    [
        {"network": ["Socket"]},
        {"network": ["AWS Libfabric"], "provider": ["tcp"]},
        {"network": ["IB", "Socket"]},
        {"network_started": ["Socket"]},
    ],
)
def test_sockets_between_hosts_are_named_as_the_cause(evidence: dict[str, list[str]]) -> None:
    """Any machine falls back to them, so its reference is that of its fabric."""
    known = reference("IB" if "IB" in evidence.get("network", ()) else "libfabric efa")
    record = log(us=100.0, **evidence)
    found = expect([record], [known])
    assert found.count(Judgement.BELOW) == 1
    assert any("went over sockets" in note and "commonest cause" in note for note in found.notes)
    told = conclusions(record, references=[known])["expected.log"]
    assert (told.severity, told.answer) == (Severity.WARNING, Answer.ASIDE)
    assert "went over sockets" in told.claim
    reached = conclusions(log(**evidence), references=[known])["expected.log"]
    assert reached.severity is Severity.INFO  # they do no harm here


def test_what_a_log_says_of_its_network_is_shown() -> None:
    record = log(network=["IB"], devices=["[0]mlx5_0:1/IB"], setting=["NCCL_IB_HCA mlx5"])
    said = "the log says: network IB; NICs [0]mlx5_0:1/IB; NCCL_IB_HCA=mlx5"
    assert said in expect([record], []).notes
    assert conclusions(record)["expected.log"].claim == said


def test_a_run_of_busbw_says_of_its_network_what_a_log_does() -> None:
    lines = ["NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>", "NCCL INFO Using network Socket"]
    plain = record_of({SIZE: 100.0}, ranks=4, hosts=2)
    first, *others = plain.world.ranks
    told = replace(first, facts={FACT: json.loads(json.dumps(said_of(read_use(lines))))})
    record = replace(plain, world=replace(plain.world, ranks=(told, *others)))
    assert network_of(record) == "sockets"
    said = "network Socket; NICs [0]eth0:10.0.0.1<0>"
    found = expect([record], [reference()])
    assert found.count(Judgement.BELOW) == 1
    assert f"NCCL says: {said}" in found.notes
    assert "commonest cause" in found.notes[0]
    assert conclusions(record, references=[reference()])["expected.log"].severity is Severity.WARNING
    assert conclusions(record)["expected.log"].severity is Severity.INFO  # it may have no other network
    fabric = replace(record, machine={"nics": {"rdma": [{"name": "mlx5_0"}]}})
    assert conclusions(fabric)["expected.log"].severity is Severity.WARNING
    assert f"# nccl     {said}" in header(record.world, record.method, record.plan, "0")
    one_host = replace(record, world=replace(record.world, ranks=(replace(told, host="a"),), size=1))
    assert network_of(one_host) == ""


def test_nodes_that_the_firmware_calls_otherwise_are_another_machine() -> None:
    def on(product: str) -> RunRecord:
        return record_of({SIZE: 100.0}, ranks=4, hosts=2, place={"product": product})

    known = reference(product="p5.48xlarge")
    assert expect([on("p5.48xlarge")], [known]).count(Judgement.BELOW) == 1
    assert expect([on("DGXH100")], [known]).unmatched == {"known": "it is of p5.48xlarge, the run of DGXH100"}


def test_expect_and_diagnose_say_alike_why_no_reference_is_used() -> None:
    record = log(us=20.0, network=["IB"])
    in_place = reference("IB", points=(Point(2, "in-place", 1.0),))
    for known, words in (
        (reference(), "none can be used"),
        (in_place, "known would fit, except for what the rows say"),
        (reference("IB", ranks=8), "none matches this operation, job size and device"),
    ):
        told = conclusions(record, references=[known])["expected.reference"]
        assert told.claim == f"no reference: {words}"
        assert expect([record], [known]).none == words
    other = conclusions(record, references=[reference()])["expected.reference"]
    assert "known: its network is libfabric efa, the run's IB" in other.evidence


def test_hosts_and_devices_of_some_ranks_are_not_those_of_all() -> None:
    record = log()
    assert (nodes(record), device(record)) == (2, "Xeon")
    last = RankInfo(3, "node1", 1, 0, "Xeon")
    some = replace(record, world=WorldInfo("imported", "", 4, (last,)))
    assert (nodes(some), device(some)) == (0, "")
    blank = tuple(replace(rank, host="not stated") if rank.rank else rank for rank in record.world.ranks)
    assert nodes(replace(record, world=replace(record.world, ranks=blank))) == 0


def test_wrong_data_that_nobody_counted_are_said_in_words() -> None:
    record = log()
    (result,) = record.results
    wrong = replace(record, results=(replace(result, status=Status.WRONG, wrong=None),))
    (seen,) = make_arm("a", [wrong]).cases.values()
    assert seen.error == "wrong elements, not counted"
    told = conclusions(wrong)["expected.data"]
    assert told.evidence.endswith("wrong elements, not counted")
    assert [fact.name for fact in told.facts] == ["cases"]
