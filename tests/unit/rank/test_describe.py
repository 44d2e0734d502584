from __future__ import annotations

from typing import TYPE_CHECKING, Any

from busbw_testing.ranks import on_ranks, scripted_backend

from busbw.model.record import HostInfo
from busbw.rank.backends.base import Identity
from busbw.rank.describe import describe

if TYPE_CHECKING:
    import pytest


def described(identities: list[Identity]) -> list[Any]:
    backends = [scripted_backend(None, 1.0, identity) for identity in identities]
    return on_ranks(len(identities), lambda world: describe(world, backends[world.rank]))


def test_rank_0_learns_where_every_rank_is() -> None:
    identity = Identity("NCCL", "2.30.4", "", device="H200", facts={"communicator_ns": 5})
    info, *others = described([identity] * 9)
    assert others == [None] * 8
    assert (info.size, info.kind, info.hosts) == (9, "nccl", ("host0", "host1"))
    assert [rank.rank for rank in info.ranks] == list(range(9))
    assert (info.ranks[8].host, info.ranks[8].local_rank, info.ranks[8].device) == ("host1", 0, "H200")
    assert info.ranks[3].facts["communicator_ns"] == 5


def test_each_host_is_described_once_by_its_first_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    asked: list[str] = []
    monkeypatch.setattr(
        "busbw.rank.describe.read_place",
        lambda host, environ, gpu: asked.append(host) or HostInfo(host, slurm_job=environ["SLURM_JOB_ID"]),
    )
    info = described([Identity("NCCL", "2", "")] * 9)[0]
    assert sorted(asked) == ["host0", "host1"]
    assert info.places == (HostInfo("host0", slurm_job="4711"), HostInfo("host1", slurm_job="4711"))
