"""Runs that end well: on a shared file system and without one, over MPI and over busbw's own channel."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from busbw_testing.mpi_ranks import YIELDING_WORDS
from busbw_testing.slurm_cluster import OPEN_MPI

import busbw

if TYPE_CHECKING:
    from busbw_testing.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

SWEEP = ("-b", "8", "-e", "64", "-n", "8", *YIELDING_WORDS)
NULL = ("--backend", "null", "--world", "nccl")
NODES = ["h1", "h2", "h3", "h4"]


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("where", ["front", "far_front"])
def test_the_bundled_mpi(where: str, request: pytest.FixtureRequest) -> None:
    front = request.getfixturevalue(where)
    done = front.run("run", "all_reduce", *SWEEP, "--on", "slurm", "-N", "4", "--format", "csv")
    assert done.code == 0, done
    assert {row["wrong"] for row in rows(done.out)} == {"0"}
    assert len(rows(done.out)) == 8
    record = front.record()
    assert (record["status"], record["world"]["kind"]) == ("complete", "mpi")
    assert front.hosts() == NODES
    assert len(record["results"]) == 8
    assert (front.folder() / "samples/samples.bin").is_file()
    logs = {path.name for path in (front.folder() / "log").iterdir()}
    own = {f"slurm-{front.job_id()}.out", f"slurm-{front.job_id()}.err"}  # where the nodes see the folder
    assert own & logs == (own if where == "front" else set())
    assert "ranks.log" in logs
    assert "--mpi=pmi2" in front.script()


def test_a_record_with_many_ranks_and_cases_comes_home_through_srun(far_front: Any) -> None:
    """Long lines are cut by srun and put together again."""
    words = ("run", "all_reduce", "-b", "8", "-e", "64M", *NULL, "--on", "slurm", "-N", "4")
    done = far_front.run(*words, "--ranks-per-node", "2", "--format", "csv")
    assert done.code == 0, done
    assert far_front.record()["world"]["kind"] == "nccl"
    assert far_front.hosts() == [host for host in NODES for _ in range(2)]
    assert len(rows(done.out)) == len(far_front.record()["results"]) == 48
    stream = (far_front.folder() / "log/stream.jsonl").read_text().splitlines()
    assert max(map(len, stream)) > 10_000
    assert (far_front.folder() / "samples/samples.bin").is_file()


def test_open_mpi(front: Any, open_mpi_python: Path) -> None:
    """srun starts it through PMIx."""
    words = ("run", "all_reduce", *SWEEP, "--on", "slurm", "-N", "4", "--python", open_mpi_python)
    done = front.run(*words, *OPEN_MPI, "--format", "csv")
    assert done.code == 0, (done, [path.read_text()[-2000:] for path in front.folder().glob("log/*")])
    assert {row["wrong"] for row in rows(done.out)} == {"0"}
    record = front.record()
    assert "Open MPI" in record["world"]["ranks"][0]["library_version"]
    assert front.hosts() == NODES
    assert "--mpi=pmix" in front.script()


def test_what_was_given_is_in_the_record_and_no_secret_is(front: Any) -> None:
    given = ("--env", "MY_MODE=2", "--env", "MY_TOKEN=hunter22")
    done = front.run("run", "all_reduce", "-e", "8", *NULL, "--on", "slurm", "-N", "2", *given)
    assert done.code == 0, done
    environment = front.record()["environment"]
    assert environment["given"] == ["MY_MODE", "MY_TOKEN"]
    assert environment["variables"]["MY_MODE"] == "2"
    assert environment["redacted"] == ["BUSBW_TOKEN", "MY_TOKEN"]
    files = [path for path in front.folder().rglob("*") if path.is_file()]
    (script,) = (path for path in files if b"hunter22" in path.read_bytes())
    assert script.name == "job.sbatch"
    assert script.stat().st_mode & 0o777 == 0o600


def test_a_setup_script_comes_first_on_every_node(front: Any, tmp_path: Path) -> None:
    """It is sourced by each rank, and the ranks of a node take turns."""
    script = front.shared / "set $(touch planted) 'up'.sh"
    script.write_text(
        "set -- other words\n[ -e /tmp/installed ] && again=1 || again=0\nsleep 0.2\n: >/tmp/installed\n"
        'echo "set up on $(hostname), again $again"\nexport FROM_SETUP="it is $(hostname)"\n'
    )
    words = ("exec", "--on", "slurm", "-N", "2", "--ranks-per-node", "2", "--setup-script", script)
    done = front.run(*words, "--", "sh", "-c", 'echo "$FROM_SETUP"; rm -f /tmp/installed')
    assert done.code == 0, done
    assert sorted(line for line in done.out.splitlines() if line.startswith("it is")) == [
        "it is h1",
        "it is h1",
        "it is h2",
        "it is h2",
    ]
    said = sorted(line for line in done.out.splitlines() if line.startswith("set up"))
    assert {f"set up on {host}, again 0" for host in ("h1", "h2")} <= set(said)


def test_a_setup_script_that_fails_names_the_node(front: Any) -> None:
    script = front.shared / "setup.sh"
    script.write_text('[ "$(hostname)" != h3 ] || exit 7\nfalse || [ "$(hostname)" = h3 ] || true\n')
    on = ("--on", "slurm", "-N", "4", "--setup-script", script)
    done = front.run("run", "all_reduce", "-e", "8", *NULL, *on)
    assert done.code == 4, done
    assert done.error == "the setup script ended with exit code 7 on h3"


@pytest.fixture
def bare_nodes(cluster: SlurmCluster) -> Iterator[None]:
    """Nodes that have no busbw: an empty folder lies over it, and over the packages that it needs."""
    hidden = {sys.prefix, str(Path(busbw.__path__[0]).parent)}
    for node in cluster.nodes:
        for folder in hidden:
            cluster.run("mount", "-t", "tmpfs", "tmpfs", folder, host=node)
    yield
    for node in cluster.nodes:
        for folder in hidden:
            cluster.run("umount", "--lazy", folder, host=node)


@pytest.mark.usefixtures("bare_nodes")
def test_busbw_is_brought_and_removed(front: Any) -> None:
    """That nothing of it stays on the nodes is looked at after every test."""
    words = ("run", "all_reduce", "-b", "8", "-e", "64", *NULL, "--on", "slurm", "-N", "3", "--format", "csv")
    without = front.run(*words)
    assert without.code == 5, without
    assert "cannot start" in without.error
    done = front.run(*words, "--bring")
    assert done.code == 0, done
    assert len(rows(done.out)) == 8
    assert not (front.folder() / "request/bundle.tar.gz").exists()
