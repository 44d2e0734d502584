"""Ctrl-C and SIGTERM: exit code 130, the record says so and keeps the finished cases, and nothing is left."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.long_runs import ENDLESS_NULL, LONG_MPI, WORLDS

SIGINT_AT_IMPORT = """
import os, signal, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["TEST_SIGINT_AT"]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Watch())
"""


@pytest.mark.parametrize("world", WORLDS)
def test_while_measuring(launcher: Any, world: str) -> None:
    run = launcher.begin("run", *WORLDS[world])
    run.pid_of(0)
    if world == "mpi":
        run.wait_for_cases(1)
        run.interrupt()
    else:
        run.process.terminate()
    done = run.finish()
    assert done.code == 130
    assert done.err == "interrupted: ending the ranks\n"
    assert not launcher.left(seconds=0.5)
    record = run.record()
    assert (record["status"], record["error"]) == ("interrupted", "")
    assert record["ended"]
    if world == "mpi":
        assert record["results"][0]["status"] == "good"
        assert "cases were not measured" in done.out


@pytest.mark.parametrize(("world", "moment_s"), [("mpi", 0.4), ("nccl", 0.05)])
def test_while_starting(launcher: Any, world: str, moment_s: float) -> None:
    run = launcher.begin("run", *WORLDS[world])
    run.until(lambda: len(launcher.processes()) > 1)  # before, the interpreter itself may have the signal
    time.sleep(moment_s)
    run.interrupt()
    done = run.finish()
    assert (done.code, done.err) == (130, "interrupted: ending the ranks\n")
    assert not launcher.left(seconds=0.5)


def test_before_there_are_ranks(launcher: Any, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SIGINT_AT_IMPORT)
    path = f"{tmp_path}:{launcher.environ['PYTHONPATH']}"
    run = launcher.begin("run", *WORLDS["mpi"], PYTHONPATH=path, TEST_SIGINT_AT="busbw.launch.here")
    done = run.finish()
    assert (done.code, done.out, done.err) == (130, "", "interrupted\n")


def test_a_rank_that_hangs_in_a_collective(launcher: Any) -> None:
    run = launcher.begin("run", *WORLDS["mpi"])
    os.kill(run.pid_of(1), signal.SIGSTOP)
    time.sleep(0.3)
    run.interrupt()
    assert run.finish().code == 130
    assert not launcher.left(seconds=0.5)


def test_a_second_ctrl_c_does_not_wait(launcher: Any) -> None:
    run = launcher.begin("run", *WORLDS["nccl"])
    os.kill(run.pid_of(1), signal.SIGSTOP)
    run.interrupt()
    run.interrupt()
    done = run.finish()
    assert done.code == 130
    assert run.record()["status"] == "interrupted"


def test_under_the_users_own_mpiexec(launcher: Any, mpiexec: str) -> None:
    """Hydra passes the signal on to the ranks, or ends them; whichever comes first, the record has an end."""
    run = launcher.start(mpiexec, "-n", "3", *launcher.busbw, "run", *LONG_MPI)
    run.wait_for_cases(1)
    run.interrupt()
    assert run.finish().code != 0
    assert not launcher.left()
    assert run.record()["status"] in ("interrupted", "failed")
    assert run.record()["ended"]


def test_one_joined_rank_alone(launcher: Any, mpiexec: str) -> None:
    """Its libraries' threads must not take the signal in its main thread's place."""
    run = launcher.start(mpiexec, "-n", "2", *launcher.busbw, "run", *LONG_MPI)
    run.wait_for_cases(1)
    os.kill(run.pid_of(1), signal.SIGINT)
    done = run.finish()
    assert done.code != 0
    assert done.seconds < 3
    assert not launcher.left(seconds=0.5)


def test_the_users_own_mpiexec_while_starting(launcher: Any, mpiexec: str) -> None:
    run = launcher.start(mpiexec, "-n", "3", *launcher.busbw, "run", *LONG_MPI)
    time.sleep(0.8)
    run.interrupt()
    run.process.wait(20)  # a rank whose interpreter is still starting says so in a traceback of its own
    assert not launcher.left()


def test_under_a_launcher_without_mpi(launcher: Any) -> None:
    ranks = launcher.torchrun_style(2, *ENDLESS_NULL)
    ranks[0].pid_of(0)
    for rank in ranks:
        rank.interrupt()
    codes = {rank.finish().code for rank in ranks}
    assert codes <= {130, 5}  # 5: it heard first that the other one had gone
    assert not launcher.left()
    assert ranks[0].record()["status"] in ("interrupted", "failed")


def test_a_reader_that_leaves(launcher: Any) -> None:
    """`busbw run ... | head -1` ends the run quietly."""
    words = " ".join((*launcher.busbw, "run", *WORLDS["mpi"]))
    done = launcher.start("bash", "-c", f"{words} | head -1; exit ${{PIPESTATUS[0]}}").finish()
    assert done.code == 141
    assert done.out.startswith("# busbw ")
    assert done.err == ""
