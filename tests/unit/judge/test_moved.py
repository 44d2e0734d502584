"""Bytes that must move, by hand for small worlds."""

from __future__ import annotations

import pytest

from busbw.judge.moved import gpu_bytes, node_bytes

S = 2**30


@pytest.mark.parametrize(
    ("operation", "algorithm", "ranks", "nodes", "share", "exact"),
    [
        ("all_reduce", "RING SIMPLE", 16, 2, 2 * 15 / 16, True),
        ("all_reduce", "RING LL", 16, 2, 4 * 15 / 16, True),
        ("all_reduce", "TREE LL128", 16, 2, 128 / 120, True),
        ("all_reduce", "NVLS_TREE SIMPLE", 32, 4, 1.5, True),
        ("all_reduce", "COLLNET_DIRECT SIMPLE", 32, 4, 1.0, True),
        ("all_reduce", "", 4, 4, 1.5, False),
        ("all_gather", "RING SIMPLE", 8, 2, 7 / 8, True),
        ("reduce_scatter", "", 8, 2, 0.5, False),
        ("alltoall", "", 8, 2, 4 * 4 / 8, True),
    ],
)
def test_out_of_a_node(
    operation: str, algorithm: str, ranks: int, nodes: int, share: float, exact: bool
) -> None:
    moved = node_bytes(operation, algorithm, S, ranks, nodes)
    assert moved is not None
    assert (moved.bytes, moved.exact) == (pytest.approx(share * S), exact)


@pytest.mark.parametrize(
    ("operation", "algorithm", "ranks", "share"),
    [
        ("all_reduce", "RING SIMPLE", 2, 1.0),
        ("all_reduce", "RING LL", 2, 2.0),
        ("all_reduce", "NVLS SIMPLE", 8, 9 / 8),
        ("all_gather", "RING LL128", 4, 0.75 * 128 / 120),
        ("alltoall", "", 4, 0.75),
        ("sendrecv", "", 2, 1.0),
    ],
)
def test_out_of_a_gpu(operation: str, algorithm: str, ranks: int, share: float) -> None:
    moved = gpu_bytes(operation, algorithm, S, ranks)
    assert moved is not None
    assert moved.bytes == pytest.approx(share * S)
