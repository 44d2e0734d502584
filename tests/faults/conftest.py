"""Real runs that go wrong: started as a shell would, looked at from outside, and nothing may be left of
them.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from busbw_testing import finished

import busbw
from busbw.record.results import read_fields

SOURCES = Path(busbw.__file__).parents[1]
BUSBW = (sys.executable, "-m", "busbw")
# Long enough for a loaded machine; a run that needs it is far from what its test allows.
PATIENCE_S = 60.0
WATCHER_S = 5.0
# A launcher's variables would make every run here join it.
LAUNCHER_VARIABLES = re.compile(
    r"^(BUSBW_|OMPI_|PMI|PMIX|MPI_LOCAL|HYDI|SLURM_|PALS_|RANK$|WORLD_SIZE$|LOCAL_RANK$|MASTER_|MPI4PY_|TORCHELASTIC_)"
)


@dataclass(frozen=True)
class Done(finished.Done):
    """What a finished command left, and when."""

    seconds: float

    @property
    def hint(self) -> str:
        """The only hint, without its prefix."""
        (hint,) = (line for line in self.err.splitlines() if line.startswith("hint: "))
        return hint.removeprefix("hint: ")


class Running:
    """A command that runs in a session of its own, as in a terminal's foreground."""

    def __init__(self, words: tuple[str, ...], environ: dict[str, str], home: Path, folder: Path) -> None:
        self.home = home
        self._out, self._err = folder / "out", folder / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                words, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )

    def until(self, what: Callable[[], Any]) -> Any:
        """Wait until ``what`` gives something, and give it."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            found = what()
            if found:
                return found
            assert self.process.poll() is None, (self._out.read_text(), self._err.read_text())
            time.sleep(0.01)
        raise AssertionError((self._out.read_text(), self._err.read_text()))

    @property
    def err(self) -> str:
        """What it has printed on standard error so far."""
        return self._err.read_text()

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
        start = time.monotonic()
        code = self.process.wait(PATIENCE_S)
        ended_s = time.monotonic()
        until_s = ended_s + WATCHER_S
        while self.record().get("status") == "running" and time.monotonic() < until_s:
            time.sleep(0.05)
        done = Done(code, self._out.read_text(), self._err.read_text(), ended_s - start)
        assert "Traceback" not in done.out + done.err, done
        return done


class Launcher:
    """Starts commands whose processes all carry one mark in their environment."""

    def __init__(self, folder: Path) -> None:
        self.mark = f"BUSBW_TEST_MARK={secrets.token_hex(8)}"
        self.folder = folder
        self.home = folder / "home"
        name, _, value = self.mark.partition("=")
        self.environ = {key: text for key, text in os.environ.items() if not LAUNCHER_VARIABLES.match(key)}
        self.environ |= {"PYTHONPATH": str(SOURCES), "BUSBW_HOME": str(self.home), name: value}
        self.busbw = BUSBW
        self._started = 0

    def start(self, *words: str, **environ: str) -> Running:
        """Start a command beside the test."""
        self._started += 1
        folder = self.folder / f"started-{self._started}"
        folder.mkdir()
        return Running(words, {**self.environ, **environ}, self.home, folder)

    def run(self, *operands: str, **environ: str) -> Done:
        """``busbw run`` with the operands, to its end."""
        return self.start(*BUSBW, "run", *operands, **environ).finish()

    def torchrun_style(self, ranks: int, *operands: str, **environ: str) -> list[Running]:
        """``busbw run`` once per rank, with the variables that torchrun and many operators set."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        common = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **environ}
        return [
            self.start(*BUSBW, "run", *operands, **common, RANK=str(rank), LOCAL_RANK=str(rank))
            for rank in range(ranks)
        ]

    def processes(self) -> dict[int, str]:
        """Every process that carries the mark, zombies left out."""
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                try:
                    if self.mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                        found[int(entry.name)] = (
                            (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                        )
                except OSError:
                    continue  # gone meanwhile
        return found

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
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip(f"no C compiler for {name}")
    library, source = folder / f"lib{name}.so", Path(__file__).with_name(f"{name}.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return str(library)


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> str:
    """MPI with a fault."""
    return preloaded("shim", tmp_path_factory.mktemp("shim"))


@pytest.fixture(scope="session")
def no_locks(tmp_path_factory: pytest.TempPathFactory) -> str:
    """File systems without locks."""
    return preloaded("no_locks", tmp_path_factory.mktemp("no_locks"))
