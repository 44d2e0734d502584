from __future__ import annotations

import pytest

from busbw.rank.world.slurm_text import first_host, local_size_of


@pytest.mark.parametrize(
    ("nodelist", "expected"),
    [
        ("", ""),
        ("h1", "h1"),
        ("h1,h2", "h1"),
        ("h[01-04,7],x3", "h01"),
        ("h[7,01-04]", "h7"),
        ("r[1-2]n[3,5]-ib", "r1n3-ib"),
        ("gpu-a[003]", "gpu-a003"),
        ("node12.cluster.local,node[13-14]", "node12.cluster.local"),
    ],
)
def test_first_host(nodelist: str, expected: str) -> None:
    assert first_host(nodelist) == expected


@pytest.mark.parametrize(
    ("tasks_per_node", "node", "expected"),
    [
        ("4(x2),3", "0", 4),
        ("4(x2),3", "1", 4),
        ("4(x2),3", "2", 3),
        ("4(x2),3", "3", None),
        ("8", "0", 8),
        ("", "0", None),
        ("8", "", None),
        ("eight", "0", None),
    ],
)
def test_local_size(tasks_per_node: str, node: str, expected: int | None) -> None:
    assert local_size_of(tasks_per_node, node) == expected
