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


def test_mpich_needs_nothing_but_the_number() -> None:
    request = over_mpi(MpiLibrary("", "system", "mpich", "/env/bin/mpiexec"), 4, 2, "/run/request.json")
    (command,) = request.commands
    assert command.argv == ("/env/bin/mpiexec", "-n", "4", *WORKER)
    assert command.environ["BUSBW_REQUEST"] == "/run/request.json"
    assert command.environ["BUSBW_WORLD"] == "mpi"
    assert (request.world, request.ranks) == ("mpi", 4)
    assert not request.process_is_rank


@pytest.mark.parametrize(
    ("family", "launcher"), [("mpich", "mpich"), ("openmpi", "openmpi"), ("mpiabi", ""), ("", "")]
)
def test_ranks_believe_their_mpiexec_and_not_what_it_was_started_among(family: str, launcher: str) -> None:
    (command,) = over_mpi(MpiLibrary("", "system", family, "/env/bin/mpiexec"), 2, 2, "r").commands
    assert command.environ["BUSBW_LAUNCHER"] == launcher


def test_hydra_stays_on_this_host_in_a_slurm_job() -> None:
    (command,) = over_mpi(MpiLibrary("", "system", "mpich", "/env/bin/mpiexec"), 2, 2, "r").commands
    assert (command.environ["HYDRA_LAUNCHER"], command.environ["HYDRA_RMK"]) == ("fork", "user")


@pytest.mark.parametrize(("ranks", "bound"), [(2, True), (3, False)])
def test_the_bundled_mpich_binds_where_every_rank_has_a_core(ranks: int, bound: bool) -> None:
    (command,) = over_mpi(MpiLibrary("", "environment", "mpich", "/env/bin/mpiexec"), ranks, 2, "r").commands
    assert ("BUSBW_BIND" in command.environ) is bound


@pytest.mark.parametrize(("ranks", "oversubscribed"), [(2, False), (3, True)])
def test_open_mpi_is_told_about_root_and_too_few_cores(ranks: int, oversubscribed: bool) -> None:
    (command,) = over_mpi(MpiLibrary("", "system", "openmpi", "/usr/bin/mpiexec"), ranks, 2, "r").commands
    assert command.environ["OMPI_ALLOW_RUN_AS_ROOT"] == "1"
    assert ("--oversubscribe" in command.argv) is oversubscribed
    assert ("mpi_yield_when_idle" in command.argv) is oversubscribed


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


def test_what_is_printed_can_be_typed_but_keeps_the_secret() -> None:
    command = Command(("prog", "a b"), {"NAME": "x y", "MY_TOKEN": "hush"})
    assert str(command) == "NAME='x y' MY_TOKEN=... prog 'a b'"
    text = str(without_mpi(2, "0123abc", 4711, "r"))
    assert text.count("\n") == 1
    assert "0123abc" not in text


def test_cpu_ranks_are_as_many_as_wanted() -> None:
    assert rank_count(5000, "mpi") == 5000
    assert 2 <= rank_count(None, "mpi") <= MOST_DEFAULT_RANKS


@pytest.mark.parametrize(
    ("wanted", "words"), [(0, "--ranks 0 is too small"), (100_000_000, "--ranks is too large")]
)
def test_no_number_of_ranks(wanted: int, words: str) -> None:
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
