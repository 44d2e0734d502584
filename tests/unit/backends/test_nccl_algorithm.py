"""What NCCL's log says about one call, and that it is read around that call alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from busbw.backends.nccl_algorithm import AlgorithmWatch, choice_in, joined
from busbw.model.choice import Choice

MakeSite = Callable[..., Any]
MakeCase = Callable[..., Any]
VARIABLES = ("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE")


@pytest.mark.parametrize(
    ("line", "words", "channels"),
    [
        ("AllReduce: 1048576 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..15}", "RING LL128", 16),
        ("AllGather: 8 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={2..7} cgaClusterSize 4",
         "NVLS_TREE SIMPLE", 6),
        ("Reduce: 8 Bytes -> Algo 1 proto 0 time 12.5", "RING LL", None),  # 2.23
        ("AllReduce: 8 Bytes -> Algo 9 proto 7 time 12.5", "9 7", None),  # numbers that we do not know
        ("AllReduce [Symmetric]: 4096 Bytes -> Kernel AllReduce_AGxLL_R nchannels 8 nthreads 512 nWorks 1",
         "SYMMETRIC AllReduce_AGxLL_R", 8),
        ("AllGather [Copy Engine]: 4096 Bytes -> cudaMemcpyBatchAsync", "COPY ENGINE", None),
    ],
)  # fmt: skip
def test_lines_of_all_versions(line: str, words: str, channels: int | None) -> None:
    choice = choice_in(f"node7:123:456 [0] NCCL INFO {line}\n")
    assert choice is not None
    assert (choice.source, choice.words, choice.channels) == ("log", words, channels)


@pytest.mark.parametrize("line", ["Connected all rings", "8 Bytes are free", ""])
def test_other_lines_tell_nothing(line: str) -> None:
    assert choice_in(f"node7:123:456 [0] NCCL INFO {line}\n") is None


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


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def told(site: Any, case: Any) -> str:
    prepared = site.backend.prepare(case)
    site.forget()
    choice = site.backend.choice(case, prepared)
    assert site.names() == [{"all_reduce": "AllReduce", "broadcast": "Broadcast"}[case.collective]]
    prepared.close()
    return choice.words if choice is not None else ""


def test_rank_0_of_a_communicator_is_asked_about_one_call(make_site: MakeSite, make_case: MakeCase) -> None:
    site = make_site(rank=0, size=4, buffer_bytes=131072)
    assert told(site, make_case("all_reduce", 4, size_bytes=4096)) == "RING LL128"
    assert told(site, make_case("broadcast", 4, size_bytes=131072)) == "NVLS SIMPLE"
    assert not set(VARIABLES) & set(os.environ)


def test_other_ranks_issue_the_call_and_know_nothing(make_site: MakeSite, make_case: MakeCase) -> None:
    site = make_site(rank=1, size=4)
    assert told(site, make_case("all_reduce", 4)) == ""


def test_the_log_is_off_again_afterwards(
    make_site: MakeSite, make_case: MakeCase, capfd: pytest.CaptureFixture[str]
) -> None:
    site = make_site(rank=0, size=4)
    prepared = site.backend.prepare(make_case("all_reduce", 4))
    site.backend.choice(prepared, prepared)
    prepared.run(0)
    assert "Algo" not in capfd.readouterr().err


def test_what_the_user_set_is_there_again(
    make_site: MakeSite, make_case: MakeCase, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("NCCL_DEBUG_SUBSYS", "TUNING")
    site = make_site(rank=0, size=4)
    case = make_case("all_reduce", 4)
    assert told(site, case) == "RING LL128"
    assert (os.environ["NCCL_DEBUG"], os.environ["NCCL_DEBUG_SUBSYS"]) == ("INFO", "TUNING")
    assert "NCCL_DEBUG_FILE" not in os.environ
    capfd.readouterr()
    site.backend.prepare(case).run(0)
    assert "Algo RING" in capfd.readouterr().err


def test_a_log_file_of_the_users_is_not_begun_anew(
    make_site: MakeSite, make_case: MakeCase, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NCCL_DEBUG_FILE", str(tmp_path / "own.log"))
    site = make_site(rank=0, size=4)
    assert told(site, make_case("all_reduce", 4)) == ""


def test_a_library_that_cannot_read_it_anew_tells_nothing(make_site: MakeSite, make_case: MakeCase) -> None:
    site = make_site(rank=0, size=4, version=22300)
    assert not AlgorithmWatch(site.backend._nccl, {}).can_tell
    assert told(site, make_case("all_reduce", 4)) == ""
