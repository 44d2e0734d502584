"""Real runs that go wrong: started as a shell would, looked at from outside, and nothing may be left of
them.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.environ import clean_environ
from busbw_testing.marked import marked
from busbw_testing.shared_libraries import compiled
from busbw_testing.started import Done, Started

from busbw.record.results import read_fields

BUSBW = (sys.executable, "-m", "busbw")
WATCHER_S = 5.0


class Running(Started):
    """A run whose records are in ``home``."""

    home: Path

    def record(self) -> dict[str, Any]:
        """The newest run's record as it is now; empty before there is one."""
        files = sorted(self.home.glob("*/run.json"), key=lambda path: path.stat().st_mtime)
        return read_fields(files[-1].parent) if files else {}

    def pid_of(self, rank: int) -> int:
        """Process id of a rank, once it measures."""
        ranks = self.until(lambda: (self.record().get("world") or {}).get("ranks"))
        return int(ranks[rank]["pid"])

    def wait_for_cases(self, cases: int) -> None:
        """Until so many cases are finished."""
        self.until(lambda: len(self.record().get("results", ())) >= cases)

    def interrupt(self) -> None:
        """Ctrl-C, as a terminal sends it: to the whole foreground group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def finish(self) -> Done:
        """Wait for the end; the watcher of a run whose rank 0 was killed closes its record a moment later."""
        done = super().finish()
        until_s = time.monotonic() + WATCHER_S
        while self.record().get("status") == "running" and time.monotonic() < until_s:
            time.sleep(0.05)
        return replace(done, out=self.out, err=self.err)


class Launcher:
    """Starts commands whose processes all carry one mark in their environment."""

    def __init__(self, folder: Path) -> None:
        self.mark = secrets.token_hex(8)
        self.folder, self.home = folder, folder / "home"
        self.environ = clean_environ(BUSBW_HOME=str(self.home), BUSBW_TEST_MARK=self.mark)
        self.busbw = BUSBW

    def start(self, *words: str, **environ: str) -> Running:
        """Start a command beside the test."""
        running = Running(words, {**self.environ, **environ}, self.folder)
        running.home = self.home
        return running

    def begin(self, *words: str, **environ: str) -> Running:
        """``busbw`` with the words, beside the test."""
        return self.start(*BUSBW, *words, **environ)

    def run(self, *operands: str, **environ: str) -> Done:
        """``busbw run`` with the operands, to its end."""
        return self.begin("run", *operands, **environ).finish()

    def torchrun_style(self, ranks: int, *operands: str, **environ: str) -> list[Running]:
        """``busbw run`` once per rank, with the variables that torchrun and many operators set."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        common = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **environ}
        return [
            self.begin("run", *operands, **common, RANK=str(rank), LOCAL_RANK=str(rank))
            for rank in range(ranks)
        ]

    def processes(self) -> dict[int, str]:
        """Every process that carries the mark, zombies left out."""
        return marked(f"BUSBW_TEST_MARK={self.mark}")

    def left(self, seconds: float = 5.0) -> dict[int, str]:
        """What is still there after so long."""
        deadline = time.monotonic() + seconds
        while (found := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    """Starts runs; afterwards looks that no process of them is left."""
    launcher = Launcher(tmp_path)
    yield launcher
    left = launcher.left()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


@pytest.fixture(scope="session")
def mpiexec() -> str:
    """The bundled MPI's own launcher, as a user would call it."""
    from busbw.machine.mpi import find_mpi

    library = find_mpi(os.environ).library
    if library is None or library.family != "mpich":
        pytest.skip("these tests start ranks with MPICH's mpiexec")
    return library.mpiexec


def preloaded(name: str, folder: Path) -> str:
    """Path of the library to preload that is made from a source beside this file."""
    return str(compiled(Path(__file__).with_name(f"{name}.c"), folder / f"lib{name}.so"))


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> str:
    """MPI with a fault."""
    return preloaded("shim", tmp_path_factory.mktemp("shim"))


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> str:
    """MPI that takes as long as variables say."""
    return preloaded("planted", tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="session")
def no_locks(tmp_path_factory: pytest.TempPathFactory) -> str:
    """File systems without locks."""
    return preloaded("no_locks", tmp_path_factory.mktemp("no_locks"))
