from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from busbw.machine.processes import state

# Rank 0 and two more ranks; all say when they are watched. None has a time in which it must move.
RANKS = """
import json, os, pathlib, sys, time
from busbw.launch.joined import report
from busbw.rank import progress
from busbw.rank.watcher import begin
from busbw.rank.world.identity import identify
def watched(rank):
    variables = {"BUSBW_RANK": str(rank), "BUSBW_WORLD_SIZE": "3"}
    begin(identify(variables), 0.0, report)
folder, status = pathlib.Path(sys.argv[1]), sys.argv[2]
pids = []
for rank in (1, 2):
    pid = os.fork()
    if pid == 0:
        watched(rank)
        os.write(1, b"ready\\n")
        time.sleep(100)
    pids.append(pid)
record = {"status": status, "ended": "", "error": "", "hint": "", "results": [1, 2]}
(folder / "run.json").write_text(json.dumps(record))
watched(0)
progress.note(folder=str(folder))
os.write(1, json.dumps([os.getpid(), *pids]).encode() + b"\\n")
time.sleep(100)
"""


def has_closed_its_files(pid: int) -> bool:
    """As the last of its threads does."""
    return state(pid) == "" or (state(pid) == "Z" and len([*Path(f"/proc/{pid}/task").glob("*")]) == 1)


@pytest.mark.parametrize(("first", "status"), [(0, "running"), (2, "running"), (1, "interrupted")])
def test_the_record_gets_its_end_and_the_first_dead_a_name(tmp_path: Path, first: int, status: str) -> None:
    words = [sys.executable, "-c", RANKS, str(tmp_path), status]
    environ = {**os.environ, "BUSBW_JOB": secrets.token_hex(8)}
    with subprocess.Popen(
        words, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as rank_0:
        assert rank_0.stdout is not None
        lines = sorted(rank_0.stdout.readline() for _ in range(3))
        pids = json.loads(lines[0])
        time.sleep(1)  # who ends before the watcher has taken it on ends in no order
        for rank in (first, *(rank for rank in (2, 1, 0) if rank != first)):
            os.kill(pids[rank], signal.SIGKILL)
            while not has_closed_its_files(pids[rank]):  # a launcher notices that, and kills the others
                time.sleep(0.01)
        _, err = rank_0.communicate(timeout=20)  # the watcher has stderr open, so this waits for it
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["results"] == [1, 2]
    if status == "running":
        assert record["status"] == "failed"
        assert record["error"].startswith(f"rank {first} on ")
        assert record["error"] in err
    else:  # rank 0 had its last words
        assert (record["status"], record["error"], err) == ("interrupted", "", "")


def test_over_several_hosts_it_claims_no_more_than_it_saw() -> None:
    from busbw.rank.watcher import ENDED, first_dead

    error = first_dead(3, ENDED, "node7", is_only_host=False)
    assert error.message.endswith("; the first to end on node7 was rank 3")
    assert error.message.startswith("a rank ended, and the launcher ended the others")
    assert error.rank is None


def test_scripts_around_ranks_are_not_their_launcher() -> None:
    """The shell of each rank is another process."""
    code = "from busbw.rank.watcher import launcher; print(launcher())"
    script = f'{sys.executable} -c "{code}"; true'  # no exec
    for rank in ("0", "1"):
        environ = {**os.environ, "BUSBW_RANK": rank, "BUSBW_WORLD_SIZE": "2"}
        said = subprocess.run(["sh", "-c", script], env=environ, capture_output=True, text=True, check=True)
        assert int(said.stdout) == os.getpid()
