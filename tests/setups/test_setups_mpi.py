"""Setups with real ranks over the bundled MPI: ranked right, failing, hanging, on an engine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from busbw_testing.compared import write
from busbw_testing.environ import clean_environ
from busbw_testing.fronts import FRONT, needs_mpich
from busbw_testing.marked import marked
from busbw_testing.started import completed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), needs_mpich]


def compare(home: Path, spec: str, *words: str) -> subprocess.CompletedProcess[str]:
    path = home / "spec.yaml"
    path.write_text(spec)
    words = (sys.executable, "-c", FRONT, "compare", str(path), "--ops", "all_reduce", "-c", "0", *words)
    return completed(words, clean_environ(BUSBW_HOME=str(home / "runs")), 850)


def test_a_slower_setup_is_ranked_right_and_an_equal_one_is_never_called(tmp_path: Path) -> None:
    """64 B through the kernel's TCP take 25 to 100 times as long as through shared memory. On 2 cores with a
    load of 10 the logarithm of the ratio of a block was 3.7 to 4.0 on average, with a standard deviation of
    0.4 to 0.6 and 3.1 at least, so that no block points the other way. (4 KiB without shared memory, 0.7 and
    0.4, would do so in one block of 20.)
    """
    spec = 'setups: {plain: {}, again: {}, tcp: {env: {MPIR_CVAR_NOLOCAL: "1", UCX_TLS: "tcp,self"}}}'
    done = compare(
        tmp_path, spec, "-b", "64", "-e", "64", "-n", "2000", "--ranks", "2", "--blocks", "14",
        "--order-seed", "3", "--format", "json", "--gate", "--false-discoveries", "0.05%", "--delta", "5%",
    )  # fmt: skip
    told = json.loads(done.stdout)
    rows = told["comparisons"][0]["rows"]
    assert [reach["failed"] for reach in told["reached"]] == [0, 0, 0], done.stderr
    assert all(row["basis"] == "blocks" for row in rows)
    assert [row["verdict"] for row in rows if row["arm"] == "tcp"] == ["SLOWER", "SLOWER"], rows
    assert {row["verdict"] for row in rows if row["arm"] == "again"} <= {"SAME", "AMBIGUOUS"}, rows
    assert {choice["setup"] for choice in told["choices"]} == {"plain"}
    assert done.returncode == 1, done.stderr
    regimes = told["comparisons"][0]["regimes"]
    assert {each["arm"] for each in regimes if each["verdict"] == "SLOWER"} == {"tcp"}


def test_setups_that_fail_and_hang_are_shown_and_the_others_measured(tmp_path: Path) -> None:
    for name, act in (
        ("stuck", "time.sleep(600)"),
        ("dying", "print('no such plugin', file=sys.stderr, flush=True); os._exit(3)"),
    ):
        write(
            tmp_path / name / "sitecustomize.py",
            f"import os, sys, time\nif 'BUSBW_REQUEST' in os.environ: {act}\n",
        )
    spec = f"""
setups:
  plain: {{}}
  broken: {{prepend: {{PYTHONPATH: {tmp_path}/dying}}}}
  hanging: {{prepend: {{PYTHONPATH: {tmp_path}/stuck}}}}
"""
    done = compare(
        tmp_path, spec, "-b", "1K", "-e", "1K", "-n", "20", "--ranks", "2", "--blocks", "1",
        "--launch-timeout", "25s", "--gate",
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "plain: 1 of 1 launches completed" in done.stdout
    assert "broken: 0 of 1 launches completed; first failure: " in done.stdout
    assert (
        "hanging: 0 of 1 launches completed; first failure: the launch had not ended after 25 s"
        in done.stdout
    )
    assert "# cases    4 FAILED" in done.stdout
    assert not marked(f"BUSBW_REQUEST={tmp_path}")


def test_on_an_engine_each_launch_is_a_job_and_one_that_hangs_is_ended(tmp_path: Path) -> None:
    """--launch-timeout counts from the job's start, and its end is not taken for a Ctrl-C."""
    act = "os.write(2, b'waiting for a lock\\n'); time.sleep(600)"
    write(
        tmp_path / "stuck" / "sitecustomize.py",
        f"import os, time\nif 'BUSBW_TICKET' in os.environ or 'PMI_RANK' in os.environ: {act}\n",
    )
    spec = f"""
setups:
  plain: {{}}
  tcp: {{env: {{MPIR_CVAR_NOLOCAL: "1"}}}}
  hanging: {{prepend: {{PYTHONPATH: {tmp_path}/stuck}}}}
"""
    done = compare(
        tmp_path, spec, "-b", "1K", "-e", "1K", "-n", "20", "--on", "hosts", "-N", "1", "--blocks", "1",
        "--env", "MPIR_CVAR_DEBUG_SUMMARY=0", "--launch-timeout", "20s", "--gate",
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "tcp: 1 of 1 launches completed, all on up to 1 nodes" in done.stdout
    late = "first failure on 1 nodes: the launch had not ended after 20 s:"
    assert f"hanging: 0 of 1 launches completed; {late}" in done.stdout
    assert "| waiting for a lock" in done.stdout
    assert "BAD TERMINATION" not in done.stdout  # what the launcher says of being ended
    assert "CUT SHORT" not in done.stdout
    (series,) = (tmp_path / "runs").glob("2*")
    told = json.loads((series / "setups.json").read_text())
    assert told["nodes"] == [1]
    for outcome in told["outcomes"]:
        if outcome["setup"] != "hanging":
            record = json.loads((series / outcome["folder"] / "run.json").read_text())
            variables = json.dumps(record["environment"])
            assert ("MPIR_CVAR_NOLOCAL" in variables) is (outcome["setup"] == "tcp")
            assert "MPIR_CVAR_DEBUG_SUMMARY" in variables
