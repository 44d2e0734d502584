"""busbw on namespace hosts: used from one of them as a person would, and what is left there afterwards."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from busbw.machine.processes import name as name_of
from busbw.rank.watcher import NAME
from busbw.record.results import read_fields
from busbw_testing.environ import clean_environ
from busbw_testing.namespaces import Hosts, seen_of_tmp
from busbw_testing.started import Started

# What the ranks of all hosts share here: this machine's cores.
ENVIRON = {"OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}
# Open MPI looks for every transport there is, which takes longer than all the rest.
ENVIRON |= {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,sm,tcp"}


class Front(Started):
    """A command of busbw that runs on a host."""

    patience_s = 500.0  # two hunts take minutes where other suites run beside

    def __init__(
        self, hosts: Hosts, on: str, argv: list[str | Path], environ: dict[str, str], folder: Path
    ) -> None:
        super().__init__(hosts.command(on, argv), environ, folder)
        self.hosts, self.on = hosts, on

    def wait_for_rows(self, rows: int = 1) -> None:
        """Until so many cases were shown."""
        self.until(lambda: self.out.count('"event":"case"') >= rows)

    def signal(self, number: int) -> None:
        """To the foreground group on the host, as a terminal there does."""
        for pid in self.hosts.processes(self.on):
            with contextlib.suppress(ProcessLookupError):
                if os.getpgid(pid) == self.process.pid:
                    os.kill(pid, number)

    @property
    def error(self) -> str:
        """The one error that was told, without its prefix, and its hint."""
        lines = self.err.splitlines()
        (at,) = (number for number, line in enumerate(lines) if line.startswith("error: "))
        return "\n".join(lines[at : at + 2]).removeprefix("error: ")


@dataclass
class Cluster:
    """Hosts, and what is started on them."""

    hosts: Hosts
    folder: Path
    python: str = sys.executable
    environ: dict[str, str] = field(default_factory=dict)
    started: list[Front] = field(default_factory=list)

    @property
    def home(self) -> Path:
        """Where the runs are, seen by all hosts."""
        return self.folder / "runs"

    def start(self, *words: str | Path, on: str = "h1", python: str = "", **environ: str) -> Front:
        """``busbw`` with the words, beside the test."""
        variables = clean_environ(**{"BUSBW_HOME": str(self.home), **ENVIRON, **self.environ, **environ})
        argv = [python or self.python, "-m", "busbw", *words]
        self.started.append(Front(self.hosts, on, argv, variables, self.folder))
        return self.started[-1]

    def run(self, *words: str | Path, code: int = 0, **options: str) -> Front:
        """``busbw`` with the words, to its end."""
        front = self.start(*words, **options)
        assert front.finish().code == code, front.out + front.err
        return front

    def record(self) -> dict[str, Any]:
        """The newest run's record; empty before there is one."""
        files = sorted(self.home.glob("*/run.json"), key=lambda path: path.stat().st_mtime)
        return read_fields(files[-1].parent) if files else {}

    @property
    def run_folder(self) -> Path:
        """The newest run's folder."""
        return max(self.home.glob("2*"), key=lambda path: path.stat().st_mtime)

    def left(self, seconds: float = 20.0) -> dict[str, dict[int, str]]:
        """What still runs on the hosts after so long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = {name: self.hosts.processes(name) for name in self.hosts.names}
            if not any(found.values()):
                return {}
            time.sleep(0.1)
        return {name: processes for name, processes in found.items() if processes}

    @staticmethod
    def rank_of(pid: int) -> int:
        """The number that an MPI launcher gave to a process."""
        words = Path(f"/proc/{pid}/environ").read_text().split("\0")
        variables = dict(word.split("=", 1) for word in words if "=" in word)
        return int(variables.get("PMI_RANK") or variables["OMPI_COMM_WORLD_RANK"])

    def ranks(self, name: str) -> list[int]:
        """The ranks' processes on a host."""
        found = self.hosts.processes(name)
        return [
            pid
            for pid, line in found.items()
            if "--deliver=" in line
            and Path(line.split()[0]).name.startswith("python")
            and name_of(pid) != NAME
        ]


def cluster_of(folder: Path, seen: Path, count: int = 4, networks: int = 1) -> Iterator[Cluster]:
    shared = folder / "with space"  # every path that busbw makes here has one
    shared.mkdir()
    keys = folder / "keys"
    keys.mkdir()
    # Open MPI keeps its sockets in /tmp under names that the hosts' equal process ids would make collide.
    with Hosts(keys, count, networks=networks, private=["/tmp"], shared=[seen, *seen_of_tmp()]) as hosts:
        yield Cluster(hosts, shared)


def end(cluster: Cluster) -> None:
    was_cut = False
    for front in cluster.started:
        if front.process.poll() is None:  # the test has failed, and its job goes on
            front.kill()
            was_cut = True
    left = cluster.left(0.1 if was_cut else 20.0)
    for processes in left.values():
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert was_cut or not left
