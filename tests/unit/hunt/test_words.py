"""Who is hunted among, and a verdict in words."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from busbw.errors import ExitCode
from busbw.hunt.field import fields, of_ranks, on_switches
from busbw.hunt.findings import excluded, findings, to_fields
from busbw.hunt.verdict import Decision, HuntVerdict, Suspect, exit_code
from busbw.model.finding import Severity
from busbw.model.hunt import BANDWIDTH, LATENCY, RESENT
from busbw.model.record import HostInfo
from busbw.rank.rank0 import lowest_switches
from busbw.report.hunt import ranking_words, verdict_words

SUSPECT = Suspect((2,), BANDWIDTH, 0.102, 0.098, 0.106, 4, 4, direction="sends", lanes=(1,))
HEALTHY = HuntVerdict(Decision.HEALTHY, (), (), "", {BANDWIDTH: 0.05}, {BANDWIDTH: 0.004}, 4, 6, 6)
SLOW = replace(HEALTHY, decision=Decision.SLOW, suspects=(SUSPECT,), tested=5)
(HOSTS,) = fields(["a", "a", "b", "b", "c", "c", "d", "d"])


def test_parts_are_hosts_their_ranks_or_the_ranks_of_one_host() -> None:
    assert HOSTS.kind == "host"
    assert HOSTS.lanes([(0, 2)]) == ((0, 4), (1, 5))
    assert HOSTS.part_of[5] == 2
    (one,) = fields(["a"] * 4)
    assert (one.kind, one.groups) == ("rank", ((0, 1, 2, 3),))
    inside, between = fields(["a"] * 3 + ["b"] * 3)
    assert inside.groups == ((0, 1, 2), (3, 4, 5))
    assert between.names == ("a", "b")
    assert between.lanes([(0, 1)]) == ((0, 3), (1, 4), (2, 5))
    assert of_ranks(["b", "a", "b"]).groups == ((0, 2), (1,))


def test_hosts_with_more_ranks_than_others_have_no_more_lanes() -> None:
    """Two lanes over one link take twice as long as one."""
    (hosts,) = fields(["a", "b", "b", "c", "c", "d"])
    assert hosts.lanes([(0, 1), (1, 2)]) == ((0, 1), (1, 3))
    assert hosts.left_out == (2, 4)
    *_, said = findings(hosts, HEALTHY)
    assert said.claim == (
        "not covered: ranks 2, 4: every host is tested with one rank, as many as the one with the fewest has"
    )
    assert findings(HOSTS, HEALTHY)[-1].claim.endswith("less than 5.0%")


def test_who_was_slowest_is_said_of_hunts_that_could_not_decide_only() -> None:
    open_ended = replace(HEALTHY, decision=Decision.UNDECIDED, ranking=((2, 0.046), (0, 0.004)))
    field = to_fields(HOSTS, open_ended, (), 1.0)
    assert field["ranking"] == [{"name": "c", "loss": 0.046}, {"name": "a", "loss": 0.004}]
    assert ranking_words(field).startswith("c 4.6%, a 0.4% less bandwidth than the others")
    assert ranking_words({**field, "decision": "healthy"}) == ""
    assert ranking_words({**field, "ranking": []}) == ""  # of a record that has none


def test_a_suspect_is_a_line_for_a_ticket() -> None:
    first, covered = findings(HOSTS, SLOW)
    assert first.claim == "c: 10.2% less bandwidth than the others have (95 %: 9.8% to 10.6%)"
    assert first.evidence.startswith("4 of its 4 tests with healthy parts were slow; ")
    assert "it sends slowly" in first.evidence
    assert "only its local ranks 1" in first.evidence
    assert (first.severity, first.host) == (Severity.ERROR, "c")
    assert covered.claim == (
        "not covered: paths between the 1 of 6 pairs that were not tested; bandwidth lower by less than 5.0%"
    )


@pytest.mark.parametrize(
    ("metric", "loss", "words"),
    [
        (LATENCY, 3.25, "3.2 times more latency than the others have"),
        (RESENT, 41.6, "42 more segments resent per test than the others"),
    ],
)
def test_other_metrics_have_their_words(metric: str, loss: float, words: str) -> None:
    found, _ = findings(HOSTS, replace(SLOW, suspects=(replace(SUSPECT, metric=metric, loss=loss),)))
    assert words in found.claim


def test_paths_that_may_be_built_so_are_no_error() -> None:
    groups = replace(SUSPECT, parts=(0, 1), beyond=(2, 3), confirmed=False, direction="", lanes=())
    undecided = replace(
        SLOW, decision=Decision.UNDECIDED, suspects=(), open=(groups,), reason="paths are not alike"
    )
    first, second, _ = findings(HOSTS, undecided)
    assert first.severity is second.severity is Severity.WARNING
    assert first.claim.startswith("the paths between a, b and c, d: 10.2% less bandwidth than the others")
    assert "--topology" in first.hint
    assert second.claim == "hosts: could not decide: paths are not alike"
    assert to_fields(HOSTS, undecided, (), 1.0)["exclude"] == {}


def test_paths_are_named_by_both_ends_and_nobody_is_left_out() -> None:
    path = replace(SUSPECT, parts=(0,), beyond=(3,), tests=4, slow_tests=3, direction="", lanes=())
    first = findings(HOSTS, replace(SLOW, suspects=(path,)))[0]
    assert first.claim.startswith("the path between a and d: ")
    assert first.evidence == "3 of 4 tests were slow, while both ends are quick with others"
    assert first.hint == "look at the links between them, and at what else runs on both"
    told = to_fields(HOSTS, replace(SLOW, suspects=(path,)), (), 1.0)
    assert (told["exclude"], told["suspects"][0]["names"]) == ({}, ["a", "d"])


def test_a_switch_is_named_with_its_hosts_and_none_is_left_out() -> None:
    field = on_switches(HOSTS, {"a": "leaf0", "b": "leaf0", "c": "leaf1", "d": "leaf1"})
    switch = replace(SLOW, suspects=(replace(SUSPECT, parts=(2, 3), leaf=True, direction="", lanes=()),))
    first = findings(field, switch)[0]
    assert first.claim.startswith("switch leaf1 of c, d: 10.2% less bandwidth")
    assert "uplinks" in first.hint
    assert to_fields(field, switch, (), 1.0)["exclude"] == {}
    assert on_switches(HOSTS, {"a": "leaf0"}).leaves == ((0,),)


def test_switches_are_those_of_the_topology_else_slurms() -> None:
    order = {"hosts": [{"host": "i-1", "switches": ["nn-1", "nn-2"]}, {"host": "b", "switches": []}]}
    places = [
        HostInfo("a", kubernetes_node="i-1", slurm_topology="s0.s1.a"),
        HostInfo("b", slurm_topology="s0.s2.b"),
        HostInfo("c", slurm_topology="c"),
    ]
    assert lowest_switches({"rank_order": order}, places) == {"a": "nn-1/nn-2", "b": "s0/s2"}
    assert lowest_switches({}, places[2:]) == {}


@pytest.mark.parametrize(
    ("tested", "words"), [(6, "HEALTHY: all 6 paths"), (3, "HEALTHY: 50% of paths tested")]
)
def test_healthy_names_the_share_of_paths_that_was_tested(tested: int, words: str) -> None:
    field = to_fields(HOSTS, replace(HEALTHY, tested=tested), (), 1.0)
    assert verdict_words(field).startswith(words)
    old = {name: own for name, own in field.items() if name != "tested"}
    assert verdict_words(old) == "HEALTHY"  # of a record that has no such number


def test_hosts_are_left_out_by_the_names_that_engines_have_for_them() -> None:
    told = to_fields(HOSTS, SLOW, (HostInfo("c", slurm_node="node-c", kubernetes_node="ip-10-0-0-3"),), 2.5)
    assert told["exclude"]["slurm"] == "--exclude=node-c"
    required = told["exclude"]["kubernetes"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (expression,) = required["nodeSelectorTerms"][0]["matchExpressions"]
    assert expression == {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["ip-10-0-0-3"]}
    assert excluded(["a", "b"])["slurm"] == "--exclude=a,b"
    assert json.loads(json.dumps(told))["suspects"][0]["names"] == ["c"]


@pytest.mark.parametrize(
    ("decisions", "code"),
    [
        ((Decision.HEALTHY,), ExitCode.OK),
        ((Decision.HEALTHY, Decision.SLOW), ExitCode.BAD_VERDICT),
        ((Decision.HEALTHY, Decision.UNDECIDED), ExitCode.UNDECIDED),
        ((Decision.UNDECIDED, Decision.SLOW), ExitCode.BAD_VERDICT),
        ((), ExitCode.UNDECIDED),
    ],
)
def test_the_exit_code_of_several_fields(decisions: tuple[Decision, ...], code: ExitCode) -> None:
    assert exit_code(decisions) is code
