from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from busbw.model.finding import Finding, Severity
from busbw.preflight.deep import DeepFacts, decode_deep, encode_deep, judge_deep
from busbw.preflight.tools import ToolReport

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
    assert finding.claim == "rank 5 (h2) copies from host to GPU with 26.0 GB/s, the median is 55.6"


def test_a_failed_diagnostic_is_an_error_and_another_tools_failure_is_not(
    eight: tuple[DeepFacts, ...],
) -> None:
    reports = (
        ToolReport("dcgmi", problems=("PCIe GPU 3: too slow", "more")),
        ToolReport("nvbandwidth", problems=("it crashed",)),
    )
    findings = judge_deep((replace(eight[0], tools=reports), *eight[1:]), strict=False)
    by_claim = {finding.claim: finding for finding in findings}
    assert by_claim["dcgmi on h1: PCIe GPU 3: too slow"].severity is ERROR
    assert by_claim["dcgmi on h1: PCIe GPU 3: too slow"].evidence == "more"
    assert by_claim["nvbandwidth on h1: it crashed"].severity is WARNING


def test_what_is_not_installed_is_said_and_not_failed(eight: tuple[DeepFacts, ...]) -> None:
    absent = (ToolReport("dcgmi", absent=True),)
    ranks = tuple(replace(rank, tools=absent if rank.rank % 4 == 0 else ()) for rank in eight)
    findings = judge_deep(ranks, strict=True)
    assert bad(findings) == []
    assert "dcgmi is not installed on h1, h2: left out" in [finding.claim for finding in findings]


@pytest.fixture
def four_hosts() -> Callable[..., tuple[DeepFacts, ...]]:
    def make(*rates: float, tool: str = "ib_write_bw", port: float = 50.0) -> tuple[DeepFacts, ...]:
        return tuple(
            DeepFacts(
                rank,
                f"h{rank + 1}",
                tools=(ToolReport(tool, values={"mlx5_0": rate}),),
                port_gb_per_s={"mlx5_0": port},
            )
            for rank, rate in enumerate(rates)
        )

    return make


def test_tools_that_measure_alike(four_hosts: Callable[..., tuple[DeepFacts, ...]]) -> None:
    assert bad(judge_deep(four_hosts(49.0, 48.9, 49.1, 49.0), strict=True)) == []


def test_a_slow_link_between_hosts(four_hosts: Callable[..., tuple[DeepFacts, ...]]) -> None:
    said = bad(judge_deep(four_hosts(49.0, 24.0, 49.1, 49.0), strict=False))
    assert said == [
        "ib_write_bw mlx5_0 reaches 24.0 GB/s on h2, the median is 49.0",
        "ib_write_bw mlx5_0 reaches 24.0 GB/s on h2, where the port's rate is 50.0",
    ]


def test_links_that_are_all_slow_are_seen_by_their_rate(
    four_hosts: Callable[..., tuple[DeepFacts, ...]],
) -> None:
    said = bad(judge_deep(four_hosts(24.0, 24.0, 24.0, 24.0), strict=False))
    assert len(said) == 4
    assert said[0] == "ib_write_bw mlx5_0 reaches 24.0 GB/s on h1, where the port's rate is 50.0"


def test_facts_travel_whole(four_hosts: Callable[..., tuple[DeepFacts, ...]]) -> None:
    facts = replace(four_hosts(49.0)[0], copies={"a": 1.5}, left_out=("b",))
    assert decode_deep(encode_deep(facts)) == facts
