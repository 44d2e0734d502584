from __future__ import annotations

import sys

import pytest

from busbw.errors import SiteError, UsageError
from busbw.launch.base import Command
from busbw.launch.local import (
    MOST_DEFAULT_RANKS,
    local_request,
    over_mpi,
    rank_count,
    without_mpi,
)
from busbw.machine import gpus
from busbw.machine.gpus import GpuPresence
from busbw.machine.mpi import MpiLibrary

WORKER = (sys.executable, "-m", "busbw.rank")


def mpirun(family: str, ranks: int, found: str = "system") -> Command:
    """Of ranks on two cores."""
    request = over_mpi(MpiLibrary("", found, family, "/env/bin/mpiexec"), ranks, 2, "/run/request.json")
    assert (request.world, request.ranks, request.process_is_rank) == ("mpi", ranks, False)
    (command,) = request.commands
    assert (command.environ["BUSBW_REQUEST"], command.environ["BUSBW_WORLD"]) == ("/run/request.json", "mpi")
    return command


def test_mpich_needs_nothing_but_the_number() -> None:
    command = mpirun("mpich", 4)
    assert command.argv == ("/env/bin/mpiexec", "-n", "4", *WORKER)
    # hydra stays on this host in a Slurm job
    assert (command.environ["HYDRA_LAUNCHER"], command.environ["HYDRA_RMK"]) == ("fork", "user")


@pytest.mark.parametrize(
    ("family", "launcher"), [("mpich", "mpich"), ("openmpi", "openmpi"), ("mpiabi", ""), ("", "")]
)
def test_ranks_believe_their_mpiexec_and_not_what_it_was_started_among(family: str, launcher: str) -> None:
    assert mpirun(family, 2).environ["BUSBW_LAUNCHER"] == launcher


@pytest.mark.parametrize(("ranks", "is_crowded"), [(2, False), (3, True)])
def test_what_follows_from_the_number_of_cores(ranks: int, is_crowded: bool) -> None:
    assert ("BUSBW_BIND" in mpirun("mpich", ranks, "environment").environ) is not is_crowded
    command = mpirun("openmpi", ranks)
    assert command.environ["OMPI_ALLOW_RUN_AS_ROOT"] == "1"
    assert ("--oversubscribe" in command.argv) is is_crowded
    assert ("mpi_yield_when_idle" in command.argv) is is_crowded


def test_no_mpiexec() -> None:
    with pytest.raises(SiteError, match="no mpiexec was found") as caught:
        over_mpi(MpiLibrary("", "system", "mpich", ""), 2, 2, "r")
    assert "pip install mpich" in caught.value.hint


def test_plain_processes_get_their_places_and_one_token() -> None:
    request = without_mpi(2, "0123abc", 4711, "/run/request.json")
    assert [command.argv for command in request.commands] == [WORKER, WORKER]
    assert [command.environ["BUSBW_RANK"] for command in request.commands] == ["0", "1"]
    assert {command.environ["BUSBW_ROOT"] for command in request.commands} == {"127.0.0.1:4711"}
    assert {command.environ["BUSBW_TOKEN"] for command in request.commands} == {"0123abc"}
    assert request.process_is_rank
    assert str(request).count("\n") == 1
    assert "0123abc" not in str(request)


def test_what_is_printed_can_be_typed_but_keeps_the_secret() -> None:
    command = Command(("prog", "a b"), {"NAME": "x y", "MY_TOKEN": "hush"})
    assert str(command) == "NAME='x y' MY_TOKEN=... prog 'a b'"


def test_how_many_cpu_ranks() -> None:
    assert rank_count(5000, "mpi") == 5000
    assert 2 <= rank_count(None, "mpi") <= MOST_DEFAULT_RANKS
    for wanted, words in ((0, "--ranks 0 is too small"), (100_000_000, "--ranks is too large")):
        with pytest.raises(UsageError, match=words):
            rank_count(wanted, "null")


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
