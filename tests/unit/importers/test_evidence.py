"""What NCCL's own lines tell, in the words of every version."""

from __future__ import annotations

import pytest

from busbw.importers.evidence import Evidence


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}", "AllReduce 1024 RING LL"),
        ("AllReduce: 1024 Bytes -> Algo 0 proto 2 time 12.5", "AllReduce 1024 TREE SIMPLE"),
        ("AllGather: 8 Bytes -> Algo 1 proto 1 time 12.5", "AllGather 8 RING LL128"),
        ("AllReduce: 8 Bytes -> Algo 9 proto 7 time 12.5", "AllReduce 8 9 7"),  # numbers that nobody knows
    ],
)
def test_numbers_of_algorithms_become_their_names(told: str, kept: str) -> None:
    evidence = Evidence()
    assert evidence.read(f"node0:1:1 [0] NCCL INFO {told}")
    assert evidence.as_dict() == {"algorithm": [kept]}
