"""Healthy ranks, one of which a test then spoils."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from busbw.machine.preflight.facts import Gathered, GpuFacts, NicFacts, NodeFacts, RankFacts
from busbw.machine.preflight.rules import CHECKS, judge
from busbw.model.finding import Finding
from busbw.model.plan import Preflight

GIB = 1 << 30
LINKS = 18


def nics() -> tuple[NicFacts, ...]:
    """Two fabric ports, an interface that is up, one that is down everywhere, and what Docker makes."""
    return (
        NicFacts("mlx5_0:1", "rdma", True, "ACTIVE", 400.0, 16, 16),
        NicFacts("mlx5_1:1", "rdma", True, "ACTIVE", 400.0, 16, 16),
        NicFacts("eth0", "net", True, "up", 25.0),
        NicFacts("eth3", "net", False, "down"),
        NicFacts("docker0", "net", False, "down"),
    )


def node(**changed: Any) -> NodeFacts:
    fields = {"nics": nics(), "memory_bytes": 2048 * GIB, "shm_bytes": 1024 * GIB}
    return NodeFacts(**{**fields, **changed})


def gpu(rank: int, **changed: Any) -> GpuFacts:
    fields = {
        "uuid": f"GPU-{rank}",
        "name": "NVIDIA H100",
        "links": LINKS,
        "links_active": LINKS,
        "sm_max_mhz": 1980,
        "lanes": 16,
        "most_lanes": 16,
    }
    return GpuFacts(**{**fields, **changed})


def healthy(hosts: int, per_host: int) -> tuple[RankFacts, ...]:
    return tuple(
        RankFacts(
            rank=rank,
            host=f"h{rank // per_host + 1}",
            local_rank=rank % per_host,
            versions={
                "busbw": "0.1.0",
                "NCCL": "2.28.9",
                "NVIDIA driver": "580.82.07",
                "container image": "efa1",
            },
            builds={"NCCL": "ab12", "NCCL net plugin": "cd34"},
            environ={"NCCL_IB_HCA": "mlx5", "LD_LIBRARY_PATH": "/opt/lib"},
            net_plugin="/opt/lib/libnccl-net.so",
            limits={"memlock": -1, "nofile": 65536},
            gpu=gpu(rank),
            node=node() if rank % per_host == 0 else None,
        )
        for rank in range(hosts * per_host)
    )


@pytest.fixture
def ranks() -> Callable[..., tuple[RankFacts, ...]]:
    """``ranks(hosts, per_host, at, ...)``: healthy ones, of which those of ``at`` have the fields changed."""

    def make(
        hosts: int = 4, per_host: int = 2, at: int | tuple[int, ...] = (), **changed: Any
    ) -> tuple[RankFacts, ...]:
        odd = (at,) if isinstance(at, int) else at
        return tuple(
            replace(rank, **changed) if rank.rank in odd else rank for rank in healthy(hosts, per_host)
        )

    return make


@pytest.fixture
def found() -> Callable[..., list[Finding]]:
    """``found(ranks, backend=..., check=..., asked=...)``: what the catalogue, or one row, says of them."""

    def find(
        ranks: tuple[RankFacts, ...], backend: str = "nccl", check: str = "", asked: Preflight | None = None
    ) -> list[Finding]:
        assert not check or check in CHECKS
        findings = judge(Gathered(ranks, backend, asked or Preflight("run")))
        return [finding for finding in findings if check in ("", finding.check)]

    return find


@pytest.fixture
def parts() -> Any:
    """The makers of a host's and a GPU's facts."""

    class Parts:
        node = staticmethod(node)
        gpu = staticmethod(gpu)
        nics = staticmethod(nics)

    return Parts
