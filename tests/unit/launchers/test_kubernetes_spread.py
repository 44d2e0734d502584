"""Where an MPIJob's ranks come to be: the launcher's script, with the real hydra for its mpirun."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from busbw_testing.here_engine import MPIEXEC

from busbw.errors import UsageError
from busbw.launchers.engine import Job, Work
from busbw.launchers.kubernetes_form import read_form
from busbw.launchers.kubernetes_manifest import documents
from busbw.settings.launch import LaunchSettings

if TYPE_CHECKING:
    from pathlib import Path

# hydra's proxies start here, each for its own line of the host file; a rank says whose it is, and stays for a
# while: mpiexec may still be writing to proxies whose ranks have ended, and then a signal ends it.
HYDRA = f'exec {MPIEXEC} -launcher fork -prepend-pattern "%h " "$1" "$2" "$3" "$4" sh -c "echo; sleep 0.3"'
SHOWN = 'cat "$4"'


def job(nodes: int, ranks: int, **flags: Any) -> Job:
    launch = LaunchSettings(on="kubernetes", nodes=str(nodes), image="i:1", **flags)
    return Job("20261122-101500-all_reduce-3f9a", "/run", Work(("run",)), launch, ranks=ranks)


def script_of(one: Job) -> tuple[str, int]:
    """The launcher's script, and the slots of a worker."""
    (body,) = documents(one, read_form(one), "team")
    container = body["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    return container["command"][2].replace("$$", "$"), body["spec"]["slotsPerWorker"]


def launched(one: Job, tmp_path: Path, mpirun: str, slots: str = ":") -> list[str]:
    """What ``mpirun`` prints, called by the script beside the operator's host file."""
    text, count = script_of(one)
    workers = [f"127.0.0.{number}" for number in range(1, int(one.launch.nodes) + 1)]
    (tmp_path / "hostfile").write_text("".join(f"{worker}{slots}{count}\n" for worker in workers))
    text = text.replace("/etc/mpi/hostfile", str(tmp_path / "hostfile"))
    text = text.replace("/tmp/busbw-even-hostfile", str(tmp_path / "even"))
    for name, body in {"mpirun": mpirun, "python3": ":"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", text, "busbw", "-m", "busbw"],
        stdin=subprocess.DEVNULL,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "POD_IP": "10.0.0.1"},
        text=True,
        capture_output=True,
        check=True,
        timeout=60,
    )
    return done.stdout.split("\n")[:-1]


GPUS = {"set": ("gpu=8",)}


@pytest.mark.parametrize(
    ("one", "counts"),
    [
        (job(4, 9), [3, 2, 2, 2]),
        (job(4, 5), [2, 1, 1, 1]),
        (job(8, 9, **GPUS), [2, 1, 1, 1, 1, 1, 1, 1]),
        (job(2, 8, set=("slots=8",)), [4, 4]),
        (job(2, 8), [4, 4]),  # the operator's own host file says it
    ],
    ids=["9 on 4", "5 on 4", "9 on 8", "more slots", "even"],
)
def test_every_pod_has_ranks(one: Job, counts: list[int], tmp_path: Path) -> None:
    found = Counter(line.strip() for line in launched(one, tmp_path, HYDRA))
    assert found == {f"127.0.0.{number}": count for number, count in enumerate(counts, 1)}


def test_open_mpi_is_told_its_way(tmp_path: Path) -> None:
    lines = launched(job(4, 9, mpi="openmpi"), tmp_path, SHOWN, slots=" slots=")
    assert lines == [f"127.0.0.{number} slots={3 if number == 1 else 2}" for number in range(1, 5)]


@pytest.mark.parametrize(
    ("one", "message", "hint"),
    [
        (job(4, 3), "--ranks 3 on 4 nodes", "at least one rank a node, or fewer nodes (-N)"),
        (job(2, 20, **GPUS), "20 ranks but 2 workers of 8 slots", "give -N 3"),
        (job(2, 9, ranks_per_node=4), "9 ranks but 2 workers of 4", "give -N 3, or --ranks-per-node 5"),
        (job(2, 9, ranks_per_node=4, **GPUS), "9 ranks but", "give -N 3, or --ranks-per-node 5"),
        (job(2, 17, ranks_per_node=4, **GPUS), "17 ranks but", "give -N 5"),
    ],
)
def test_ranks_that_do_not_fit_are_refused_with_what_does(one: Job, message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        read_form(one)
    assert caught.value.hint == (hint if hint.startswith("give -N") else f"give {hint}")
