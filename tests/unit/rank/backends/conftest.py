"""The NCCL backend on stand-in libraries: one rank of a communicator, and what it asked the libraries for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from busbw_testing.shared_libraries import stand_in

from busbw.machine.native.cuda import CudaDriver
from busbw.model.case import Case
from busbw.model.plan import CallOptions, Limits, Plan
from busbw.rank.backends import nccl
from busbw.rank.backends.buffers import BufferPair
from busbw.rank.backends.host_memory import HostMemory
from busbw.rank.backends.nccl import NcclBackend

BuildStandIn = Callable[..., str]
PAIR_BYTES = 4096
Asked = list[tuple[str, ...]]


@dataclass
class Site:
    """A connected backend. ``asked`` are the calls since the last ``forget``, names and values as text."""

    backend: NcclBackend
    log: Path
    rank: int
    size: int

    def asked(self, *without: str) -> Asked:
        lines = [tuple(line.split()) for line in self.log.read_text().splitlines()]
        return [line for line in lines if line[0] not in without]

    def forget(self) -> None:
        self.log.write_text("")

    def names(self) -> list[str]:
        return [line[0] for line in self.asked("EventRecord")]


@pytest.fixture
def pair() -> Iterator[BufferPair]:
    """Two buffers of ``PAIR_BYTES`` on the host."""
    pair = BufferPair.allocate(HostMemory(), PAIR_BYTES)
    yield pair
    pair.release()


@pytest.fixture(scope="session")
def build_stand_in(tmp_path_factory: pytest.TempPathFactory) -> BuildStandIn:
    """``build_stand_in("nccl", "VERSION=22809")`` -> path of the library."""
    made: dict[tuple[str, ...], str] = {}

    def build(source: str, *defines: str) -> str:
        if (key := (source, *defines)) not in made:
            target = tmp_path_factory.mktemp(source) / f"lib{source}_stand_in.so"
            made[key] = str(stand_in(source, target, *defines))
        return made[key]

    return build


@pytest.fixture
def make_site(
    build_stand_in: BuildStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Site]:
    """``make_site(rank=1, size=4, options=..., version=22809, ...)`` -> a connected Site."""
    log = tmp_path / "asked"
    log.touch()
    monkeypatch.setenv("STAND_IN_LOG", str(log))

    def make(
        *,
        rank: int = 1,
        size: int = 4,
        options: CallOptions = CallOptions(),  # noqa: B008 (frozen)
        version: int = 22809,
        nccl_defines: tuple[str, ...] = (),
        cuda_defines: tuple[str, ...] = (),
        buffer_bytes: int = 65536,
        grouped: bool = False,
        connect: bool = True,
        groups: tuple[tuple[int, ...], ...] = (),
        show: tuple[str, ...] = (),
        cases: tuple[Case, ...] = (),
        tuner_table: str = "",
    ) -> Site:
        monkeypatch.setattr(nccl, "CudaDriver", partial(CudaDriver, build_stand_in("cuda", *cuda_defines)))
        path = build_stand_in("nccl", f"VERSION={version}", *nccl_defines)
        plan = Plan(
            "nccl",
            cases,
            buffer_bytes,
            Limits(),
            0,
            0,
            nccl_path=path,
            options=options,
            groups=groups,
            show=show,
            tuner_table=tuner_table,
        )
        backend = NcclBackend(plan, 1, grouped=grouped)
        site = Site(backend, log, rank, size)
        if connect:
            unique_id = bytes(i if i % 3 else 0 for i in range(128))
            world: Any = SimpleNamespace(
                rank=rank,
                size=size,
                broadcast=lambda _: unique_id,
                barrier=lambda: None,
                max=lambda own: own,
            )
            backend.connect(world)
        return site

    return make
