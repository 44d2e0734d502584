"""What NCCL's log says about one call, and that it is read around that call alone."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.cases import case_of

from busbw.machine.native import core, profiler
from busbw.model.choice import Choice
from busbw.rank.backends.nccl_algorithm import VARIABLE, choice_in, choice_of, joined

MakeSite = Callable[..., Any]
VARIABLES = ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE")
WATCHED = ("algorithm",)
# A release that knows each version of the interface as its newest.
RELEASES = {1: 22304, 2: 22503, 3: 22605, 4: 22707, 5: 22809, 6: 23007, 7: 23203}
FIRST_WITH_CHANNELS = 4


@pytest.fixture(autouse=True)
def undisturbed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in (*VARIABLES, VARIABLE, "NCCL_CONF_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert profiler.version() == 0
    yield
    assert profiler.version() == 0, "a test left a communicator"


def test_the_last_line_counts() -> None:
    lines = ("AllReduce: 8 Bytes -> Algo TREE proto LL", "AllReduce: 8 Bytes -> Algo RING proto LL", "done")
    choice = choice_in("\n".join(f"n:1:1 [0] NCCL INFO {line}" for line in lines))
    assert choice is not None
    assert choice.words == "RING LL"


def test_channels_come_from_the_log_where_the_profiler_does_not_tell_them() -> None:
    profiled, logged = Choice("profiler v3", "RING", "LL", warps=16), Choice("log", "RING", "LL", channels=8)
    assert joined(profiled, logged) == replace(profiled, source="profiler v3, log", channels=8)
    assert joined(profiled, replace(logged, protocol="LL128")) == profiled
    assert joined(replace(profiled, channels=4), logged) == replace(profiled, channels=4)
    assert joined(None, logged) == logged
    assert joined(None, None) is None


def told(site: Any, case: Any) -> str:
    prepared = site.backend.prepare(case)
    site.forget()
    choice = site.backend.choice(case, prepared)
    assert site.names() == [{"all_reduce": "AllReduce", "broadcast": "Broadcast"}[case.collective]]
    prepared.close()
    return choice.words if choice is not None else ""


def test_rank_0_of_a_communicator_is_asked_about_one_call(make_site: MakeSite) -> None:
    site = make_site(rank=0, size=4, buffer_bytes=131072)
    assert told(site, case_of("all_reduce", 4, size_bytes=4096)) == "RING LL128"
    assert told(site, case_of("broadcast", 4, size_bytes=131072)) == "NVLS SIMPLE"
    assert not set(VARIABLES) & set(os.environ)


def test_other_ranks_issue_the_call_and_know_nothing(make_site: MakeSite) -> None:
    site = make_site(rank=1, size=4)
    assert told(site, case_of("all_reduce", 4)) == ""


def test_what_the_user_set_is_there_again(
    make_site: MakeSite, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("NCCL_DEBUG_SUBSYS", "TUNING")
    site = make_site(rank=0, size=4)
    case = case_of("all_reduce", 4)
    assert told(site, case) == "RING LL128"
    assert (os.environ["NCCL_DEBUG"], os.environ["NCCL_DEBUG_SUBSYS"]) == ("INFO", "TUNING")
    assert "NCCL_DEBUG_FILE" not in os.environ
    capfd.readouterr()
    site.backend.prepare(case).run(0)
    assert "Algo RING" in capfd.readouterr().err


def test_a_log_file_of_the_users_is_not_begun_anew(
    make_site: MakeSite, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NCCL_DEBUG_FILE", str(tmp_path / "own.log"))
    site = make_site(rank=0, size=4)
    assert told(site, case_of("all_reduce", 4)) == ""


@pytest.fixture
def chosen(make_site: MakeSite) -> Callable[..., Choice | None]:
    """``chosen("all_reduce", 4096, version=22809, ...)`` -> what rank 1 of 4 was told."""

    def choice(name: str, size_bytes: int, **wanted: Any) -> Choice | None:
        site = make_site(buffer_bytes=131072, show=WATCHED, **wanted)
        case = case_of(name, 4, size_bytes=size_bytes)
        prepared = site.backend.prepare(case)
        prepared.run(0)  # before anybody watches
        found: Choice | None = site.backend.choice(case, prepared)
        prepared.close()
        site.backend.close()
        return found

    return choice


@pytest.mark.parametrize("version", RELEASES)
def test_a_collective_in_every_version(chosen: Callable[..., Choice | None], version: int) -> None:
    few = chosen("all_reduce", 4096, version=RELEASES[version])
    many = chosen("broadcast", 131072, version=RELEASES[version])
    channels = 16 if version >= FIRST_WITH_CHANNELS else None
    common = {"source": f"profiler v{version}", "tasks": 1, "channels": channels, "warps": 12}
    # Once by the backend to learn what an event costs, and once more before it was watched.
    assert few is not None
    assert few.sequence is not None
    assert few.sequence > 1
    assert few == Choice(
        algorithm="RING", protocol="LL128", functions=("AllReduce",), sequence=few.sequence, **common
    )
    assert many == Choice(algorithm="NVLS", protocol="SIMPLE", functions=("Broadcast",), sequence=1, **common)


@pytest.mark.parametrize("version", RELEASES)
def test_sends_and_receives_in_every_version(chosen: Callable[..., Choice | None], version: int) -> None:
    channels = 8 if version >= FIRST_WITH_CHANNELS else None
    common = {"source": f"profiler v{version}", "functions": ("Send", "Recv"), "channels": channels}
    assert chosen("alltoall", 4096, version=RELEASES[version]) == Choice(tasks=8, peers=3, **common)
    assert chosen("sendrecv", 4096, version=RELEASES[version]) == Choice(tasks=2, peers=2, **common)


def test_symmetric_kernels_are_told_from_the_seventh_version_on(
    chosen: Callable[..., Choice | None],
) -> None:
    found = chosen("all_reduce", 4096, version=RELEASES[7], nccl_defines=("SYMMETRIC",))
    assert found is not None
    assert (found.words, found.channels) == ("SYMMETRIC AllReduce_AGxLL_R", 16)
    assert chosen("all_reduce", 4096, version=RELEASES[6], nccl_defines=("SYMMETRIC",)) is None
    logged = chosen("all_reduce", 4096, rank=0, version=RELEASES[6], nccl_defines=("SYMMETRIC",))
    assert logged is not None
    assert (logged.source, logged.words) == ("log", "SYMMETRIC AllReduce_AGxLL_R")


@pytest.mark.parametrize("version", [6, 7])
def test_copies_by_the_engine(chosen: Callable[..., Choice | None], version: int) -> None:
    found = chosen("all_gather", 4096, version=RELEASES[version], nccl_defines=("COPIES",))
    assert found is not None
    assert (found.words, found.functions, found.sequence) == ("COPY ENGINE MC", ("AllGather",), 3)


def test_a_release_without_profiler_and_log_tells_nothing(chosen: Callable[..., Choice | None]) -> None:
    assert chosen("all_reduce", 4096, rank=0, version=22005) is None


def test_the_log_adds_what_the_first_versions_leave_out(chosen: Callable[..., Choice | None]) -> None:
    found = chosen("all_reduce", 4096, rank=0, version=RELEASES[3])
    assert found is not None
    assert (found.source, found.channels, found.warps) == ("profiler v3, log", 16, 12)


def test_a_plugin_of_the_users_stays(
    chosen: Callable[..., Choice | None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(VARIABLE, "none")
    assert chosen("all_reduce", 4096, rank=1) is None
    logged = chosen("all_reduce", 4096, rank=0)
    assert logged is not None
    assert (logged.source, logged.words, logged.channels) == ("log", "RING LL128", 16)
    assert os.environ[VARIABLE] == "none"
    monkeypatch.delenv(VARIABLE)
    (tmp_path / ".nccl.conf").write_text(f"{VARIABLE}=inspector\n")
    assert chosen("all_reduce", 4096, rank=1) is None


def test_nothing_is_called_while_nobody_watches(make_site: MakeSite) -> None:
    site = make_site(show=WATCHED)
    case = case_of("all_reduce", 4)
    prepared = site.backend.prepare(case)
    site.backend.choice(case, prepared)
    _, told = profiler.events()
    prepared.time(1, 3, 2)
    assert profiler.events()[1] == told > 0
    prepared.close()
    site.backend.close()


def test_groups_and_the_world_s_communicator_are_ended_one_by_one(make_site: MakeSite) -> None:
    site = make_site(rank=1, size=4, groups=((0, 1), (2, 3)), show=WATCHED)
    assert profiler.version() == 5
    case = case_of("all_reduce", 2)
    prepared = site.backend.prepare(case)
    assert site.backend.choice(case, prepared) is not None
    prepared.close()
    site.backend.close()
    assert profiler.version() == 0


@pytest.fixture
def crowd(build_stand_in: Callable[..., str]) -> Callable[[int, int], None]:
    """``crowd(threads, events)``: NCCL's threads, telling at once."""
    library = ctypes.CDLL(build_stand_in("profiler_crowd"))

    def tell(threads: int, events: int) -> None:
        assert library.crowd(str(core.LIBRARY_PATH).encode(), threads, events) == 0

    return tell


def test_threads_may_tell_at_once(crowd: Callable[[int, int], None]) -> None:
    """More events than are kept: the last ones are, each whole."""
    threads, each = 4, 200_000
    profiler.watch(profiler.COLLECTIVE)
    crowd(threads, each)
    profiler.watch(0)
    kept, told = profiler.events()
    assert told == threads * each
    assert len(kept) == profiler.EVENTS_KEPT
    for event in kept:
        text = str(event.sequence).encode()
        assert (event.count, event.function, event.algorithm) == (event.sequence, text, text)
    by_thread: dict[int, list[int]] = {}
    for event in kept:
        by_thread.setdefault(event.rank, []).append(event.sequence)
    assert all(numbers == sorted(numbers) for numbers in by_thread.values())
    many = choice_of(kept, 5, told)
    assert many is not None
    assert many.tasks is None
