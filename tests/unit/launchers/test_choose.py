from __future__ import annotations

import pytest

from busbw.errors import SiteError, UsageError
from busbw.launchers.choose import MOST_DEFAULT_RANKS, local_request, rank_count
from busbw.probes import gpus
from busbw.probes.gpus import GpuPresence


@pytest.mark.parametrize("wanted", [1, 3, 5000])
def test_cpu_ranks_are_as_many_as_wanted(wanted: int) -> None:
    assert rank_count(wanted, "mpi") == wanted


def test_cpu_ranks_by_default() -> None:
    assert 2 <= rank_count(None, "mpi") <= MOST_DEFAULT_RANKS


@pytest.mark.parametrize("wanted", [0, -1])
def test_no_number_of_ranks(wanted: int) -> None:
    with pytest.raises(UsageError, match=f"--ranks {wanted} is too small"):
        rank_count(wanted, "null")


def test_more_ranks_than_a_host_has_processes_are_not_started() -> None:
    with pytest.raises(UsageError, match="--ranks is too large"):
        rank_count(100_000_000, "mpi")


def test_one_rank_per_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "gpu_presence", lambda: GpuPresence(4, "12.8"))
    assert rank_count(None, "nccl") == 4
    assert rank_count(2, "nccl") == 2
    with pytest.raises(SiteError, match="5 ranks but 4 visible GPUs on "):
        rank_count(5, "nccl")
    monkeypatch.setattr(gpus, "gpu_presence", lambda: GpuPresence(1, "12.8"))
    with pytest.raises(SiteError, match="2 ranks but 1 visible GPU on "):
        rank_count(2, "nccl")


@pytest.mark.parametrize(
    ("backend", "world", "expected"),
    [("nccl", "auto", "nccl"), ("mpi", "auto", "mpi"), ("null", "nccl", "nccl")],
)
def test_the_world_that_is_started(backend: str, world: str, expected: str) -> None:
    request = local_request(backend, world, 2, "r")
    assert request.world == expected
    assert len(request.commands) == (1 if expected == "mpi" else 2)


def test_a_solo_world_has_one_rank() -> None:
    assert len(local_request("null", "solo", 1, "r").commands) == 1
    with pytest.raises(UsageError, match="--world solo has one rank, not 2"):
        local_request("null", "solo", 2, "r")
