"""The MPI world under the bundled MPICH, with real ranks."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

BIN = Path(sys.executable).parent
MPIEXEC = shutil.which("mpiexec", path=str(BIN))

pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="the bundled mpich is not installed here")


Events = list[dict[str, Any]]


@dataclass(frozen=True)
class Done:
    """A finished program: what its ranks said, and the text that holds it."""

    exit_code: int
    events: Events
    text: str


@pytest.fixture
def run(program: Path, environment: Callable[..., dict[str, str]]) -> Callable[..., Done]:
    """Run a scenario, under mpiexec where a size is given."""

    def run(scenario: str, size: int | None = None, **variables: str) -> Done:
        launcher = [] if size is None else [str(MPIEXEC), "-n", str(size)]
        done = subprocess.run(
            [*launcher, sys.executable, str(program), scenario],
            env=environment(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=60,
            check=False,
        )
        # Hydra may join two ranks' lines.
        lines = done.stdout.replace('}{"at_s"', '}\n{"at_s"').splitlines()
        events = [json.loads(line) for line in lines if line.startswith('{"at_s"')]
        return Done(done.returncode, events, done.stdout)

    return run


Run = Callable[..., Done]


def test_all_calls_give_the_same_on_every_rank(run: Run, host: str) -> None:
    done = run("collectives", 4)
    assert done.exit_code == 0, done.text
    results = sorted(done.events, key=lambda event: event["rank"])
    root = results[0]
    assert [result["rank"] for result in results] == [0, 1, 2, 3]
    assert [[rank, name, local] for rank, name, _, local in root["members"]] == [
        [r, host, r] for r in range(4)
    ]
    assert root["same_plan"] == 1
    assert root["gathered"] == [[0, []], [700_000, [1]], [1_400_000, [2]], [2_100_000, [3]]]
    for result in results:
        assert (result["kind"], result["size"], result["hosts"]) == ("mpi", 4, [host])
        assert result["members"] == root["members"]
        assert result["maximum"] == [[3.0, 0.0], [0.5, -float("inf")]]
        assert (result["total"], result["total_type"]) == ([[6] * 3] * 2, "int64")
        assert result["many"] == root["many"]
        assert result["many"][2]


def test_fail_ends_all_ranks_with_exit_code_5(run: Run, host: str) -> None:
    done = run("give_up", 3)
    # hydra has the code of the rank that it saw end first: the one that gave up, or one it then killed.
    assert done.exit_code in (5, 9), done.text
    (failure,) = (event for event in done.events if event["event"] == "on_failure")
    assert (failure["rank"], failure["host"], failure["reason"]) == (1, host, "no room for the buffers")


def test_ranks_that_the_library_does_not_see_are_noticed(run: Run) -> None:
    """As under a launcher of another MPI: the library starts a world of one, and says nothing."""
    done = run("linger", SLURM_PROCID="1", SLURM_STEP_ID="0", SLURM_NTASKS="4", TEST_WORLD="mpi")
    assert done.exit_code == 4
    (error,) = done.events
    assert error["type"] == "LauncherMismatch"
    assert error["message"].startswith(
        "4 separate one-rank worlds: the launcher is slurm, the MPI library is MPICH"
    )
    assert f"{BIN}/mpiexec" in error["hint"]
    assert "--world nccl" in error["hint"]
