"""Who is hunted among, and a verdict in words."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from busbw.errors import ExitCode
from busbw.hunt.field import fields, of_ranks
from busbw.hunt.findings import excluded, exit_code, findings, to_fields
from busbw.hunt.verdict import Decision, Suspect, Verdict
from busbw.model.finding import Severity
from busbw.model.hunt import BANDWIDTH, LATENCY, RESENT
from busbw.model.record import HostInfo
from busbw.reports.hunt import ranking_words

SUSPECT = Suspect(
    (2,), BANDWIDTH, 0.102, 0.098, 0.106, (0, 3), 4, 4, confirmed=True, direction="sends", lanes=(1,)
)
HEALTHY = Verdict(Decision.HEALTHY, (), (), "", {BANDWIDTH: 0.05}, {BANDWIDTH: 0.004}, 4, 0, 6, 6)
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


def test_ranks_that_have_nobody_on_their_host_are_no_parts() -> None:
    inside, between = fields(["a", "b", "b", "b", "c"])
    assert inside.names == ("rank 1 on b", "rank 2 on b", "rank 3 on b")
    assert (inside.ranks, inside.groups) == (((1,), (2,), (3,)), ((0, 1, 2),))
    assert len(between.names) == 3


def test_who_was_slowest_is_said_of_hunts_that_could_not_decide_only() -> None:
    open_ended = replace(HEALTHY, decision=Decision.UNDECIDED, ranking=((2, 0.046), (0, 0.004)))
    field = to_fields(HOSTS, open_ended, (), 1.0)
    assert field["ranking"] == [{"name": "c", "loss": 0.046}, {"name": "a", "loss": 0.004}]
    assert ranking_words(field).startswith("c 4.6%, a 0.4% of bandwidth less than the others")
    assert ranking_words({**field, "decision": "healthy"}) == ""
    assert ranking_words({**field, "ranking": []}) == ""  # of a record that has none


def test_a_suspect_is_a_line_for_a_ticket() -> None:
    first, covered = findings(HOSTS, SLOW)
    assert first.claim == "c: 10.2% less bandwidth than the others have (95 %: 9.8% to 10.6%)"
    assert "fresh tests with a, d, which pass with others; 4 of 4 tests" in first.evidence
    assert "it sends slowly" in first.evidence
    assert "only its local ranks 1" in first.evidence
    assert (first.severity, first.host) == (Severity.ERROR, "c")
    assert covered.claim == (
        "not covered: paths between the 1 of 6 pairs that were not tested; bandwidth that is lower by less"
        " than 5.0%"
    )


@pytest.mark.parametrize(
    ("metric", "loss", "words"),
    [
        (LATENCY, 3.25, "3.2 times more latency than the others have"),
        (RESENT, 41.6, "42 segments a test were sent again, over those of the others"),
    ],
)
def test_other_metrics_have_their_words(metric: str, loss: float, words: str) -> None:
    found, _ = findings(HOSTS, replace(SLOW, suspects=(replace(SUSPECT, metric=metric, loss=loss),)))
    assert words in found.claim


def test_what_was_not_confirmed_is_no_error() -> None:
    undecided = replace(
        SLOW,
        decision=Decision.UNDECIDED,
        suspects=(),
        open=(replace(SUSPECT, confirmed=False),),
        reason="1 suspected",
    )
    first, second, _ = findings(HOSTS, undecided)
    assert first.severity is second.severity is Severity.WARNING
    assert first.claim.endswith("suspected, not confirmed")
    assert second.claim == "hosts: could not decide: 1 suspected"
    assert to_fields(HOSTS, undecided, (), 1.0)["exclude"] == {}


def test_paths_are_named_by_both_ends_and_nobody_is_left_out() -> None:
    of_path = replace(SUSPECT, parts=(0, 3), partners=(), slow_screens=1, screens=1, fresh=3, slow_fresh=2)
    path = replace(SLOW, suspects=(of_path,))
    first = findings(HOSTS, path)[0]
    assert first.claim.startswith("the path between a and d: ")
    assert first.evidence.startswith(
        "2 of 3 fresh tests of this pair were slow, while both of its hosts passed with others; 1 of 1"
    )
    assert to_fields(HOSTS, path, (), 1.0)["exclude"] == {}


def test_hosts_are_left_out_by_the_names_that_engines_have_for_them() -> None:
    told = to_fields(HOSTS, SLOW, (HostInfo("c", slurm_node="node-c", kubernetes_node="ip-10-0-0-3"),), 2.5)
    assert told["exclude"]["slurm"] == "--exclude=node-c"
    required = told["exclude"]["kubernetes"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (expression,) = required["nodeSelectorTerms"][0]["matchExpressions"]
    assert expression == {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["ip-10-0-0-3"]}
    assert excluded(["a", "b"])["slurm"] == "--exclude=a,b"
    assert json.loads(json.dumps(told))["suspects"][0]["names"] == ["c"]


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ((HEALTHY,), ExitCode.OK),
        ((HEALTHY, SLOW), ExitCode.BAD_VERDICT),
        ((HEALTHY, replace(HEALTHY, decision=Decision.UNDECIDED)), ExitCode.UNDECIDED),
        ((replace(HEALTHY, decision=Decision.UNDECIDED), SLOW), ExitCode.BAD_VERDICT),
    ],
)
def test_the_exit_code_of_several_fields(verdicts: tuple[Verdict, ...], code: ExitCode) -> None:
    assert exit_code(verdicts) is code
