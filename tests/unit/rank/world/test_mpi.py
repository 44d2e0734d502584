"""The MPI world under the bundled MPICH, with real ranks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.mpi_ranks import MPIEXEC, needs_mpiexec

pytestmark = needs_mpiexec


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


def test_all_calls_give_the_same_on_every_rank(run: Run, are_alike: Callable[..., None]) -> None:
    done = run("collectives", 4)
    assert done.exit_code == 0, done.text
    are_alike(sorted(done.events, key=lambda event: event["rank"]), "mpi")


def test_fail_ends_all_ranks_with_exit_code_5(run: Run, host: str) -> None:
    done = run("give_up", 3)
    # hydra has the code of the rank that it saw end first: the one that gave up, or one it then killed.
    assert done.exit_code in (5, 9), done.text
    (failure,) = (event for event in done.events if event["event"] == "on_failure")
    assert (failure["rank"], failure["host"], failure["reason"]) == (1, host, "no room for the buffers")
