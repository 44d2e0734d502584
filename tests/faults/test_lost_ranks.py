"""A hunt on this host whose rank dies or hangs: it goes on without it, and the rank's process is gone."""

from __future__ import annotations

import json
import os
import signal
import socket
from typing import Any

import pytest
from busbw_testing.marked import environs

HOST = socket.gethostname()
RANKS = 5
HUNT = (
    *("isolate", "--backend", "mpi", "--rank-wait", "sleep", "--no-preflight", "-b", "1M"),
    *("--ranks", str(RANKS), "--round-timeout", "8s", "--format", "json"),
)


def process_of(launcher: Any, rank: int) -> int:
    """Of a rank of the launch that runs, by what its launcher told it."""
    found = environs(f"BUSBW_TEST_MARK={launcher.mark}")
    return next(pid for pid, variables in found.items() if variables.get("PMI_RANK") == str(rank))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGKILL, "rank 2"), (signal.SIGSTOP, "its process is stopped")]
)
def test_a_lost_rank_is_a_finding_and_the_hunt_goes_on(launcher: Any, number: int, said: str) -> None:
    run = launcher.begin(*HUNT)
    run.until(lambda: "round 1, screen" in run.err)
    victim = process_of(launcher, 2)
    os.kill(victim, number)
    run.until(lambda: "starting again without it" in run.err)
    assert victim not in launcher.processes()  # the next launch has its core
    done = run.finish()
    assert done.code == 1, done.err
    record = json.loads(done.out)  # one document, of the last launch
    assert record["status"] == "complete"
    assert record["world"]["size"] == RANKS - 1
    (lost,) = [finding for finding in record["findings"] if finding["check"] == "lost"]
    assert lost["claim"].startswith(f"rank 2 of {RANKS} on {HOST}: lost during the hunt: rank 2 on {HOST} ")
    assert said in lost["claim"]
    assert (lost["severity"], lost["host"], lost["node"]) == ("error", HOST, "")
    (field,) = record["hunt"]["fields"]
    assert len(field["names"]) == RANKS - 1
    assert field["exclude"] == {}
    shown = launcher.begin("show", "last").finish()
    assert f"rank 2 of {RANKS} on {HOST}: lost during the hunt" in shown.out
    assert f": the other {RANKS - 1} ranks" in shown.out


def test_a_rank_of_somebodys_launcher_ends_the_hunt(launcher: Any, mpiexec: str) -> None:
    run = launcher.start(mpiexec, "-n", str(RANKS), *launcher.busbw, *HUNT[:8])
    run.until(lambda: "round 1, screen" in run.err)
    os.kill(process_of(launcher, 2), signal.SIGKILL)
    done = run.finish()
    assert done.code not in (0, 1, 2)
    assert "starting again" not in done.err
    assert f"error: rank 2 on {HOST} ended first" in done.err
