"""Which ranks a process of a launcher starts, what they are told, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from busbw.errors import UsageError
from busbw.foreign.nccl_tests.flags import read
from busbw.foreign.nccl_tests.processes import (
    Processes,
    answer,
    of_several,
    processes_words,
    rank_commands,
    starts_ranks,
    worst,
)
from busbw.plan.pattern import split_colours
from busbw.rank.world.base import Member
from busbw.rank.world.identity import identify
from busbw.rank.world.meet import Met

LINE = ("all_reduce_perf", ["-t", "2", "-g", "4"])
WORDS = ("all_reduce_perf", *LINE[1])
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
# Three processes, two of them on one host.
MEMBERS = (Member(0, "a", 10, 0), Member(1, "a", 11, 1), Member(2, "b", 12, 0))


def identity(environ: dict[str, str]) -> Any:
    return identify(environ)


def met(rank: int, members: tuple[Member, ...] = MEMBERS) -> Met:
    return Met(rank, members, b'{"root": "10.0.0.1", "token": "secret"}')


def test_a_process_of_a_launcher_starts_its_ranks() -> None:
    assert starts_ranks(identity(OPEN_MPI), read(*LINE))
    assert not starts_ranks(identity(OPEN_MPI), read("all_reduce_perf", ["-g", "1"]))


def test_ranks_are_numbered_process_by_process() -> None:
    commands = [
        command
        for process in range(3)
        for command in rank_commands(met(process), "slurm", read("all_reduce_perf", ["-g", "4"]), WORDS)
    ]
    numbers = [
        tuple(command.environ[f"BUSBW_{name}"] for name in ("RANK", "LOCAL_RANK", "LOCAL_SIZE"))
        for command in commands
    ]
    assert numbers == [
        *((str(i), str(i), "8") for i in range(8)),
        *((str(8 + i), str(i), "4") for i in range(4)),
    ]
    assert {command.environ["BUSBW_WORLD_SIZE"] for command in commands} == {"12"}
    assert all(command.argv[-4:] == ("-t", "2", "-g", "4") for command in commands)
    assert "secret" not in str(commands[0])


def test_a_rank_knows_itself_and_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    told = rank_commands(met(1, MEMBERS[:2]), "openmpi", read(*LINE), WORDS)[3].environ
    monkeypatch.setenv("BUSBW_PROCESSES", told["BUSBW_PROCESSES"])
    rank, processes = of_several(identity(OPEN_MPI | dict(told)), read(*LINE))
    assert (rank.launcher, rank.rank, rank.size, rank.local_rank) == ("openmpi", 11, 16, 11)
    assert (rank.world, rank.root_host, rank.token) == ("nccl", "10.0.0.1", "secret")
    assert not starts_ranks(identity(OPEN_MPI | dict(told)), read(*LINE))
    assert processes_words(processes, read(*LINE)) == (
        "processes 2 (started by openmpi) x threads 2 x GPUs 4; each rank is a process of its own here"
    )


@pytest.mark.parametrize(
    ("split", "groups"),
    [("MOD 2", [0, 0, 1, 1, 0, 0]), ("DIV 2", [0, 0, 0, 0, 1, 1]), ("AND 0x1", [0, 0, 1, 1, 0, 0])],
)
def test_a_split_is_of_processes(split: str, groups: list[int]) -> None:
    of_ranks = Processes("slurm", 3, 2).split(split)
    assert split_colours(of_ranks, 6) == groups
    assert Processes("slurm", 3, 1).split(split) == split


def test_cpu_ranks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSBW_BACKEND", "mpi")
    world: Any = SimpleNamespace(size=2)
    with pytest.raises(UsageError, match=r"-t 2 -g 4 asks for 8 ranks") as refused:
        answer(identity(OPEN_MPI), read(*LINE), world)
    assert refused.value.hint == "start 16 processes, each with -t 1 -g 1"


def test_the_one_that_was_killed_is_the_reason() -> None:
    assert worst({0: 5, 1: -9, 2: 0}) == (1, -9)
    assert worst({0: 0, 1: 4}) == (1, 4)
    assert worst({0: 0}) == (-1, 0)
