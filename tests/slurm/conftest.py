"""Four nodes and a login host with a real Slurm, and busbw as a user on the login host starts it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.open_mpi import make_open_mpi
from busbw_testing.slurm_cluster import SlurmCluster, slurm_of
from busbw_testing.started import PATIENCE_S, Done, Started

from busbw.machine.processes import name as name_of
from busbw.rank.watcher import NAME

# How long Slurm may be completing a job whose script has ended.
ENDING_S = 30.0
NODES = 4


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Started once. /tmp is each host's own; ``cluster.folder`` is what all see."""
    with slurm_of(tmp_path_factory.mktemp("slurm"), NODES) as started:
        yield started


@pytest.fixture(autouse=True)
def nothing_left(cluster: SlurmCluster) -> Iterator[None]:
    """Whatever a test did, no job and no file of a job is on the cluster afterwards."""
    yield
    deadline = time.monotonic() + ENDING_S
    while (left := cluster.jobs()) and time.monotonic() < deadline:
        time.sleep(0.1)
    if left:
        cluster.run("scancel", "--user=root")
    cluster.wait_until_idle()
    assert left == []
    for node in cluster.nodes:
        assert cluster.left_in_tmp(node) == []
        assert [line for line in cluster.hosts.processes(node).values() if "busbw" in line] == []


@pytest.fixture(scope="session")
def open_mpi_python(cluster: SlurmCluster) -> Path:
    """A Python that loads Open MPI, seen by all hosts."""
    return make_open_mpi(cluster.folder.parent / "open-mpi")


class Running(Started):
    """A command on the login host."""

    def __init__(self, cluster: SlurmCluster, words: list[str], environ: dict[str, str], at: Path) -> None:
        self._cluster = cluster
        self._before = set(cluster.hosts.processes(cluster.login))
        super().__init__(words, environ, at)

    def pid(self) -> int:
        """The front process, as this machine counts."""
        for pid, line in self._cluster.hosts.processes(self._cluster.login).items():
            if pid not in self._before and "-m busbw" in line:
                return pid
        raise AssertionError("it has ended")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the front process alone."""
        os.kill(self.pid(), number)

    def rows(self) -> list[dict[str, Any]]:
        """The events that it has shown (--format jsonl)."""
        return [json.loads(line) for line in self.out.splitlines() if line.endswith("}")]

    def wait_for_cases(self, count: int) -> None:
        """Until so many cases were shown."""
        self.until(lambda: sum(row["event"] == "case" for row in self.rows()) >= count)

    def finish(self) -> Done:
        """Wait for the end."""
        try:
            return super().finish()
        except AssertionError as error:
            error.add_note(self._cluster.run("squeue", "--steps"))
            raise

    def kill(self) -> None:
        """End the front as a lost connection or a power failure does, without a word."""
        with contextlib.suppress(AssertionError, ProcessLookupError):
            os.kill(self.pid(), signal.SIGKILL)
        self.process.wait(PATIENCE_S)


class Front:
    """Starts busbw on the login host; ``home`` is where it keeps its runs."""

    def __init__(self, cluster: SlurmCluster, home: Path, at: Path) -> None:
        self.cluster, self.home, self._at = cluster, home, at
        self._started: list[Running] = []

    def start(self, *words: str | Path, **variables: str) -> Running:
        """Start a command."""
        environ = self.cluster.environ(BUSBW_HOME=str(self.home), **variables)
        command = self.cluster.command(sys.executable, "-m", "busbw", *words)
        self._started.append(Running(self.cluster, command, environ, self._at))
        return self._started[-1]

    def run(self, *words: str | Path, **variables: str) -> Done:
        """A command to its end."""
        return self.start(*words, **variables).finish()

    def close(self) -> None:
        """End what a failed test left."""
        for running in self._started:
            running.kill()

    def folder(self) -> Path:
        """The newest run's folder, as this process can read it."""
        home = self.cluster.seen_from(self.cluster.login, self.home)
        return max(home.glob("2*"), key=lambda path: path.stat().st_mtime_ns)

    def record(self) -> dict[str, Any]:
        """The newest run's record."""
        fields: dict[str, Any] = json.loads((self.folder() / "run.json").read_text())
        return fields

    def hosts(self) -> list[str]:
        """Those of the ranks of the newest run, which is complete."""
        record = self.record()
        assert record["status"] == "complete", record
        return [rank["host"] for rank in record["world"]["ranks"]]

    def job_ids(self) -> list[str]:
        """The jobs of all runs."""
        home = self.cluster.seen_from(self.cluster.login, self.home)
        return [json.loads(path.read_text())["id"] for path in home.glob("*/request/job.json")]

    def job_id(self) -> str:
        """The only run's job."""
        (job,) = self.job_ids()
        return str(job)

    def script(self) -> str:
        """The only run's job script."""
        return (self.folder() / "request/job.sbatch").read_text()

    @property
    def shared(self) -> Path:
        """A folder that all hosts see."""
        return self.cluster.folder.parent / "home"

    def ranks(self, host: str) -> list[int]:
        """Process ids of the ranks on a host, as this machine counts."""
        lines = self.cluster.hosts.processes(host).items()
        found = [
            pid for pid, line in lines if "-m busbw run" in line and not line.startswith(("srun", "sh "))
        ]
        return [pid for pid in found if name_of(pid) != NAME]


@pytest.fixture
def front(cluster: SlurmCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Front]:
    """Runs are kept in a folder that the nodes see as well."""
    name = re.sub(r"\W+", "-", request.node.name)
    yield from _front(cluster, cluster.folder.parent / "home" / name, tmp_path)


@pytest.fixture
def far_front(cluster: SlurmCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Front]:
    """Runs are kept on the login host alone."""
    name = re.sub(r"\W+", "-", request.node.name)
    yield from _front(cluster, Path("/tmp") / name, tmp_path)


def _front(cluster: SlurmCluster, home: Path, at: Path) -> Iterator[Front]:
    made = Front(cluster, home, at)
    try:
        yield made
    finally:
        made.close()
