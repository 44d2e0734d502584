from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# Rank 0 with its guard, and two more ranks that report to it; all say when they are there.
RANKS = """
import json, os, pathlib, sys, time
from busbw.rank.guard import Guard
from busbw.rank.world.watched import report_to
folder, status = pathlib.Path(sys.argv[1]), sys.argv[2]
guard = Guard()
pids = []
for rank in (1, 2):
    pid = os.fork()
    if pid == 0:
        os.close(guard._write_fd)  # rank 0 alone holds it
        connection = report_to(guard.address, rank)
        os.write(1, b"ready\\n")
        time.sleep(100)
    pids.append(pid)
record = {"status": status, "ended": "", "error": "", "hint": "", "results": [1, 2]}
(folder / "run.json").write_text(json.dumps(record))
guard.watch(str(folder))
os.write(1, json.dumps([os.getpid(), *pids]).encode() + b"\\n")
time.sleep(100)
"""


@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.parametrize("status", ["running", "interrupted"])
def test_the_record_gets_its_end_and_the_first_dead_a_name(tmp_path: Path, first: int, status: str) -> None:
    words = [sys.executable, "-c", RANKS, str(tmp_path), status]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as rank_0:
        assert rank_0.stdout is not None
        lines = sorted(rank_0.stdout.readline() for _ in range(3))
        pids = json.loads(lines[0])
        for rank in (first, *(rank for rank in (2, 1, 0) if rank != first)):
            os.kill(pids[rank], signal.SIGKILL)
            time.sleep(0.05)  # a launcher has to notice before it kills the others
        _, err = rank_0.communicate(timeout=20)  # the guard has stderr open, so this waits for it
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["results"] == [1, 2]
    if status == "running":
        assert record["status"] == "failed"
        assert record["error"].startswith(f"rank {first} on ")
        assert record["error"] in err
    else:  # rank 0 had its last words
        assert (record["status"], record["error"], err) == ("interrupted", "", "")


def test_a_rank_without_a_guard_goes_on() -> None:
    from busbw.rank.world.watched import report_to

    assert report_to("busbw-no-such-guard", 1) is None


def test_over_several_hosts_it_claims_no_more_than_it_saw() -> None:
    from busbw.rank.guard import describe_first_dead

    error = describe_first_dead(3, "node7", hosts=2)
    assert error.endswith("; the first to end on node7 was rank 3")
    assert error.startswith("a rank ended, and the launcher ended the others")
