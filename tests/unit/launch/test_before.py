"""What Slurm is asked before a job is submitted: the pure part, on answers as they come."""

from __future__ import annotations

import pytest

from busbw.launch.slurm.before import image_findings, read_partitions
from busbw.launch.slurm.before import judge as judge_partitions
from busbw.model.finding import Severity

ERROR, WARNING = Severity.ERROR, Severity.WARNING

# sinfo --noheader --format='%R|%a|%D|%T'
SINFO = """\
gpu|up|6|idle
gpu|up|1|mixed-
gpu|up|2|down*
gpu|up|1|drained
slow|up|4|allocated
closed|down|4|idle
"""


def test_partitions_are_read_with_their_states() -> None:
    gpu, slow, closed = read_partitions(SINFO)
    assert (gpu.name, gpu.is_up, gpu.nodes, gpu.usable) == ("gpu", True, 10, 7)
    assert (slow.nodes, slow.usable) == (4, 4)
    assert not closed.is_up


@pytest.mark.parametrize(
    ("wanted", "nodes", "severity", "claim"),
    [
        ("gpu", 11, ERROR, "Node count 11 is more than partition gpu has (10)"),
        ("gpu", 8, WARNING, "7 of 10 nodes of partition gpu can be used, 8 are asked for"),
        ("closed", 1, WARNING, "partition closed is down: jobs are taken and do not start"),
        ("fast", 1, ERROR, "invalid partition specified: fast"),
    ],
)
def test_a_partition_that_cannot_serve(wanted: str, nodes: int, severity: Severity, claim: str) -> None:
    (finding,) = judge_partitions(read_partitions(SINFO), wanted, nodes)
    assert (finding.severity, finding.claim) == (severity, claim)


@pytest.mark.parametrize(("wanted", "nodes"), [("gpu", 7), ("slow,gpu", 7), ("", 99), ("closed,gpu", 1)])
def test_a_partition_that_can(wanted: str, nodes: int) -> None:
    assert list(judge_partitions(read_partitions(SINFO), wanted, nodes)) == []


def test_an_image_needs_pyxis_and_its_file() -> None:
    with_pyxis = "  --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH\n"
    assert list(image_findings("ubuntu", with_pyxis, exists=False)) == []
    assert [each.severity for each in image_findings("/fsx/x.sqsh", with_pyxis, exists=False)] == [WARNING]
    assert [each.severity for each in image_findings("ubuntu", "", exists=False)] == [ERROR]
