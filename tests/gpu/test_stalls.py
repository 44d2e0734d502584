"""Runs on two GPUs that hang: the rank that is the cause is named, and NCCL's own answer stands beside.

``python -m pytest -m gpu -s tests/gpu/test_stalls.py`` prints what is said of each.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.environ import clean_environ
from busbw_testing.marked import environs, first_of

from busbw.machine.gpus import gpu_presence

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(120),
    pytest.mark.skipif(gpu_presence().count < 2, reason="needs two GPUs"),
]
MEDDLE = Path(__file__).parents[1] / "faults" / "meddle"
VICTIM = 1
MEDDLED_CASE = 2  # the first that is larger than those before
SWEEP = ("-b", "1M", "-e", "2M", "-f", "1.1", "--case-time", "100ms", "--stall", "3s")
SIGNALS = {"stop": signal.SIGSTOP, "kill": signal.SIGKILL}
WORDS = {
    "stop": "is stopped",
    "kill": "killed|ended|gone",
    "skip": "has not entered",
    "size": "different calls",
}
KINDS = [*itertools.product(WORDS, ("all_reduce", "alltoall", "sendrecv"), (False, True))]


def victim(home: Path) -> int | None:
    """The process of the rank, and not what it has forked."""
    found = environs(f"BUSBW_HOME={home}")
    return first_of({pid: own for pid, own in found.items() if own.get("BUSBW_RANK") == str(VICTIM)})


def events(out: Path) -> list[dict[str, Any]]:
    lines = out.read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def hung(fault: str, operation: str, *, graph: bool, folder: Path) -> tuple[int, int, float, dict[str, Any]]:
    """Exit code, the victim's process, seconds from the fault or the last case to the end, and the error."""
    out, home = folder / "out", folder / "home"
    own = {"HANG_FAULT": fault, "HANG_RANK": str(VICTIM), "HANG_CASE": str(MEDDLED_CASE)}
    own["PYTHONPATH"] = f"{MEDDLE}:{clean_environ()['PYTHONPATH']}"
    if "BUSBW_NCCL" in os.environ:
        own["BUSBW_NCCL"] = os.environ["BUSBW_NCCL"]
    words = ["run", operation, "--backend", "nccl", "--ranks", "2", "--no-preflight", *SWEEP]
    words += ["--cycles", "200"] if fault in SIGNALS else []  # the sweep still runs when the signal comes
    with out.open("wb") as stdout, (folder / "err").open("wb") as stderr:
        run = subprocess.Popen(
            [sys.executable, "-m", "busbw", *words, *(["-G", "1"] if graph else []), "--format", "jsonl"],
            env=clean_environ(BUSBW_HOME=str(home), **own), stdout=stdout, stderr=stderr,
        )  # fmt: skip
    said, began_s, pid = 0, time.monotonic(), 0
    while run.poll() is None and not (pid and fault in SIGNALS):
        if (now := sum(each["event"] in ("header", "case", "window") for each in events(out))) > said:
            said, began_s, pid = now, time.monotonic(), victim(home) or 0
        time.sleep(0.05)
    if fault in SIGNALS:
        assert pid, (folder / "err").read_text()
        time.sleep(1)  # it measures
        began_s = time.monotonic()
        os.kill(pid, SIGNALS[fault])
    code = run.wait(60)
    seconds = time.monotonic() - began_s
    error = next((each for each in events(out) if each["event"] == "error"), {})
    return code, pid, seconds, error or {"message": (folder / "err").read_text(), "rank": None}


@pytest.mark.parametrize(("fault", "operation", "graph"), KINDS)
def test_the_rank_that_is_the_cause_is_named(tmp_path: Path, fault: str, operation: str, graph: bool) -> None:
    code, pid, seconds, error = hung(fault, operation, graph=graph, folder=tmp_path)
    hang = error.get("hang") or {"evidence": [], "states": []}
    what = f"{fault} {operation}{' -G 1' if graph else ''}"
    print(f"\n{what}: rank {error['rank']}, {seconds:.1f} s, exit code {code}: {error['message']}")
    for line in hang["evidence"]:
        print(f"    {line}")
    for row in hang["states"]:
        print(f"    {row}")
    assert error["rank"] in (None, VICTIM)
    if fault == "size" and code == 1:  # NCCL has finished with wrong data, and the check shows it
        return
    assert code == 5
    assert re.search(WORDS[fault], error["message"])
    assert error["rank"] == (None if fault == "size" else VICTIM)  # of two, nobody knows which size is right
    assert seconds < 20
    if fault == "stop":  # NCCL's own answer, where it came in time, is the same
        answers = [line for line in hang["evidence"] if "'s RAS: " in line]
        assert all(f"rank {VICTIM} (pid {pid} on " in line for line in answers)
