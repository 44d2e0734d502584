from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.machine.preflight.deep import DeepFacts, ToolReport, judge_deep, read_dcgmi
from busbw.model.finding import Finding, Severity
from busbw.model.plain import from_bytes, to_bytes

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO


@pytest.fixture
def eight() -> tuple[DeepFacts, ...]:
    return tuple(
        DeepFacts(rank, f"h{rank // 4 + 1}", {"from host to GPU": 55.0 + rank / 4, "to the next rank": 300.0})
        for rank in range(8)
    )


def bad(findings: tuple[Finding, ...]) -> list[str]:
    return [finding.claim for finding in findings if finding.severity is not INFO]


def test_ranks_that_copy_alike_are_told_and_not_blamed(eight: tuple[DeepFacts, ...]) -> None:
    findings = judge_deep(eight, strict=True)
    assert bad(findings) == []
    first = findings[0]
    assert first.claim == "copies from host to GPU: median 55.9 GB/s"
    assert first.evidence == "55.0 to 56.8 GB/s over 8 ranks"


def test_a_rank_that_copies_slowly_is_named(eight: tuple[DeepFacts, ...]) -> None:
    slow = (*eight[:5], replace(eight[5], copies={"from host to GPU": 26.0}), *eight[6:])
    (finding, *_) = judge_deep(slow, strict=False)
    assert (finding.severity, finding.rank, finding.host) == (WARNING, 5, "h2")
    assert finding.claim == "rank 5 (h2) copies from host to GPU at 26.0 GB/s, the median is 55.6"


def test_a_failed_diagnostic_is_an_error_and_another_tools_failure_is_not(
    eight: tuple[DeepFacts, ...],
) -> None:
    reports = (
        ToolReport("dcgmi", problems=("PCIe GPU 3: too slow", "more")),
        ToolReport("nvbandwidth", problems=("it crashed",)),
        read_dcgmi("dcgmi did not end within 180 s"),
    )
    findings = judge_deep((replace(eight[0], tools=reports), *eight[1:]), strict=False)
    by_claim = {finding.claim: finding for finding in findings}
    assert by_claim["dcgmi on h1: PCIe GPU 3: too slow"].severity is ERROR
    assert by_claim["dcgmi on h1: PCIe GPU 3: too slow"].evidence == "more"
    assert by_claim["nvbandwidth on h1: it crashed"].severity is WARNING
    assert by_claim["dcgmi on h1: dcgmi did not end within 180 s"].severity is WARNING


def test_what_is_not_installed_is_said_and_not_failed(eight: tuple[DeepFacts, ...]) -> None:
    absent = (ToolReport("dcgmi", left_out="it is not installed", ran=False),)
    ranks = tuple(replace(rank, tools=absent if rank.rank % 4 == 0 else ()) for rank in eight)
    findings = judge_deep(ranks, strict=True)
    assert bad(findings) == []
    assert "dcgmi did not run on h1, h2: it is not installed" in [finding.claim for finding in findings]


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        (
            (49.0, 24.0, 49.1, 49.0),
            [
                "ib_write_bw mlx5_0 reaches 24.0 GB/s on h2, the median is 49.0",
                "ib_write_bw mlx5_0 reaches 24.0 GB/s on h2, where the port's rate is 50.0",
            ],
        ),
        (
            (24.0,) * 4,
            [
                f"ib_write_bw mlx5_0 reaches 24.0 GB/s on h{at}, where the port's rate is 50.0"
                for at in range(1, 5)
            ],
        ),
    ],
)
def test_slow_links_between_hosts_are_seen_by_the_others_and_by_their_rate(
    rates: tuple[float, ...], said: list[str]
) -> None:
    hosts = tuple(
        DeepFacts(
            rank,
            f"h{rank + 1}",
            tools=(ToolReport("ib_write_bw", values={"mlx5_0": rate}),),
            port_gb_per_s={"mlx5_0": 50.0},
        )
        for rank, rate in enumerate(rates)
    )
    assert bad(judge_deep(hosts, strict=False)) == said


def ring(hosts: int, per_host: int, between: float, domains: int = 0) -> tuple[DeepFacts, ...]:
    """NVLink inside hosts, and from each host to the next what is given; ``domains`` hosts share one."""
    edge = (0, per_host - 1)
    return tuple(
        DeepFacts(
            rank,
            f"h{rank // per_host + 1}",
            {"to the next rank": between if rank % per_host in edge else 330.0},
            domain=f"rack{rank // per_host // domains}" if domains else "",
        )
        for rank in range(hosts * per_host)
    )


@pytest.mark.parametrize(("hosts", "per_host"), [(1, 8), (2, 8), (4, 8), (2, 2), (4, 1)])
def test_links_inside_hosts_and_between_them_are_judged_apart(hosts: int, per_host: int) -> None:
    facts = ring(hosts, per_host, 48.0 if hosts > 1 else 330.0)
    findings = judge_deep(facts, strict=True)
    assert bad(findings) == []
    claims = [finding.claim for finding in findings]
    assert ("copies to the next rank: median 330.0 GB/s" in claims) is (per_host > 2)
    assert ("copies to the next rank between hosts: median 48.0 GB/s" in claims) is (hosts > 1)


def test_hosts_of_one_nvlink_domain_are_judged_apart_from_others() -> None:
    facts = list(ring(4, 4, 330.0, domains=2))
    for at in (0, 7, 8, 15):  # the racks' ends
        facts[at] = replace(facts[at], copies={"to the next rank": 48.0})
    assert bad(judge_deep(tuple(facts), strict=True)) == []


def test_a_slow_link_of_each_kind_is_named() -> None:
    facts = list(ring(4, 8, 48.0))
    facts[3] = replace(facts[3], copies={"to the next rank": 160.0})
    facts[8] = replace(facts[8], copies={"to the next rank": 12.0})
    findings = judge_deep(tuple(facts), strict=False)
    assert bad(findings) == [
        "rank 8 (h2) copies to the next rank between hosts at 12.0 GB/s, the median is 48.0",
        "rank 3 (h1) copies to the next rank at 160.0 GB/s, the median is 330.0",
    ]
    assert "NICs" in findings[0].hint


def test_facts_travel_whole() -> None:
    reports = (ToolReport("ib_write_bw", values={"mlx5_0": 49.0}),)
    facts = DeepFacts(0, "h1", {"a": 1.5}, ("b",), reports, {"mlx5_0": 50.0}, "c.1")
    assert from_bytes(DeepFacts, to_bytes(facts)) == facts
