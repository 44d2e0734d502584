"""A rank that is killed while and after it measures: named with its host within ten seconds, exit
code 5, the finished cases kept, and every other rank gone.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.long_runs import ENDLESS_NULL, LONG_MPI, WORLDS

HOST = socket.gethostname()
# Up to 9 s on an idle machine: silence is an end after 5 s, and the others have 2 s for their last words.
NAMED_WITHIN_S = 30

# Loaded by every Python below (it is on PYTHONPATH): rank 1 has a defect.
HOOK = """
import os, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "busbw.rank.backends.create":
            raise RuntimeError("no such luck")

if "1" in (os.environ.get("PMI_RANK"), os.environ.get("BUSBW_RANK")) and "-m" in sys.orig_argv:
    sys.meta_path.insert(0, Watch())
"""


def ended(world: str, rank: int) -> str:
    """Hydra may tell how another rank ended, one that it killed itself: then only the name is certain."""
    how = "was killed by SIGKILL"
    if world == "mpi":
        how = f"({how}|ended first, and the launcher ended the others)"
    return f"rank {rank} on {re.escape(HOST)} {how}"


@pytest.mark.parametrize(("world", "victim"), [("mpi", 1), ("nccl", 0), ("nccl", 1)])
def test_killed_while_measuring(launcher: Any, world: str, victim: int) -> None:
    run = launcher.begin("run", *WORLDS[world])
    pid = run.pid_of(victim)
    if world == "mpi":
        run.wait_for_cases(1)
        mapped = Path(f"/proc/{pid}/maps").read_text().splitlines()
        shared = [line for line in mapped if "/dev/shm/mpich_" in line]
        assert shared
        assert all(line.endswith(" (deleted)") for line in shared)  # nothing is left of a rank that is killed
    os.kill(pid, signal.SIGKILL)
    done = run.finish()
    assert done.code == 5
    assert re.fullmatch(ended(world, victim), done.error), done
    assert done.seconds < NAMED_WITHIN_S
    record = run.record()
    assert (record["status"], record["error"]) == ("failed", done.error)
    assert record["ended"]
    if world == "mpi":
        assert record["results"][0]["status"] == "good"
        assert f"record   {run.home}" in done.out


@pytest.mark.slow
@pytest.mark.parametrize("victim", range(3))
def test_killed_at_the_end(launcher: Any, victim: int) -> None:
    """Either the record is whole, or the rank is named."""
    words = ("--ranks", "3", "--backend", "mpi", "all_reduce", "-b", "8", "-e", "64", "-n", "50")
    run = launcher.begin("run", *words)
    pid = run.pid_of(victim)
    run.until(lambda: run.record()["status"] == "complete")
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    done = run.finish()
    assert done.code == 0 or re.fullmatch(ended("mpi", victim), done.error), done


@pytest.mark.parametrize("script", [(), ("sh", "-c", '"$@"; exit $?', "sh")], ids=["bare", "in-a-script"])
def test_killed_under_the_users_own_mpiexec(launcher: Any, mpiexec: str, script: tuple[str, ...]) -> None:
    """Hydra ends all ranks with SIGKILL at once, and its exit code is its own; the record still has an
    end.
    """
    victim = 2
    run = launcher.start(mpiexec, "-n", "3", *script, *launcher.busbw, "run", *LONG_MPI)
    run.wait_for_cases(1)
    os.kill(run.pid_of(victim), signal.SIGKILL)
    done = run.finish()
    assert done.code not in (0, 1, 2)
    assert not launcher.left()
    record = run.record()
    assert record["status"] == "failed"
    assert record["error"] == f"rank {victim} on {HOST} ended first, and the launcher ended the others"
    assert record["results"][0]["status"] == "good"


@pytest.mark.parametrize("victim", [0, 2])
def test_killed_under_a_launcher_without_mpi(launcher: Any, victim: int) -> None:
    ranks = launcher.torchrun_style(3, *ENDLESS_NULL)
    os.kill(ranks[0].pid_of(victim), signal.SIGKILL)
    done = [rank.finish() for rank in ranks]
    assert [item.code for item in done] == [-9 if rank == victim else 5 for rank in range(3)]
    assert all(item.seconds < NAMED_WITHIN_S for item in done)
    errors = [line for item in done for line in item.err.splitlines() if line.startswith("error: ")]
    assert any(line.startswith(f"error: rank {victim} on {HOST}") for line in errors), errors
    assert not launcher.left()
    assert ranks[0].record()["status"] == "failed"
    assert f"rank {victim} on {HOST}" in ranks[0].record()["error"]


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_a_defect_on_one_rank_ends_all(launcher: Any, tmp_path: Path, world: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(HOOK)
    path = f"{tmp_path}:{launcher.environ['PYTHONPATH']}"
    done = launcher.run(*WORLDS[world], PYTHONPATH=path)
    assert done.code == 5
    assert done.error.startswith(f"rank 1 on {HOST}")


def test_ranks_end_when_the_front_process_is_killed(launcher: Any) -> None:
    for operands in WORLDS.values():
        run = launcher.begin("run", *operands)
        run.pid_of(0)
        run.process.kill()
        run.process.wait()
        assert not launcher.left()
