"""`busbw tune` on two GPUs: NCCL does what an arm says, and a table works in a PyTorch job."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from busbw_testing.shared_libraries import stand_in

from busbw.machine.gpus import gpu_presence
from busbw.machine.plugins import tuner_path
from busbw.model.arm import Arm
from busbw.model.result import Status
from busbw.record.read import read_record

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.timeout(300),
    pytest.mark.skipif(gpu_presence().count < 2, reason="needs two GPUs"),
]
JOB = Path(__file__).with_name("tuned_job.py")
BYTES = 4 * 2**20
LOGGED = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "TUNING"}


def tune(home: Path, *words: str) -> Path:
    done = subprocess.run(
        [sys.executable, "-m", "busbw", "tune", *words, "--ranks", "2", "--format", "json"],
        env={**os.environ, "BUSBW_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return home / str(json.loads(done.stdout)["run"])


def test_nccl_does_what_every_arm_says(tmp_path: Path) -> None:
    folder = tune(
        tmp_path, "all_reduce,all_gather", "-b", "4M", "-e", "4M", "--blocks", "0", "--evidence", "algorithm"
    )
    record = read_record(folder)
    seen = 0
    for result in record.results:
        case = record.plan.cases[result.case]
        if not case.arm or result.status is not Status.GOOD:
            continue
        assert result.choice is not None
        arm = Arm.of(case.arm)
        assert (result.choice.algorithm, result.choice.protocol) == (arm.algorithm, arm.protocol), case.arm
        if arm.channels and result.choice.channels is not None:
            assert result.choice.channels <= arm.channels, case.arm
        seen += 1
    assert seen > 20


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_a_pytorch_job_follows_the_table(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text(f"allgather,{BYTES},{BYTES},ring,ll128,24,1,2,-1,-1\n")
    with_table = {"NCCL_TUNER_PLUGIN": str(tuner_path()), "BUSBW_TUNER_FILE": str(table)}
    own, tuned = [], []
    for _ in range(2):
        own.append(_time_us({}))
        tuned.append(_time_us(with_table))
    said = _run({**with_table, **LOGGED})
    chosen = _chosen(said)
    print(f"all_gather of 4 MiB: {own} us by NCCL, {tuned} us by the table, {chosen}")
    assert chosen == {("RING", "LL128", "23")}
    assert len(re.findall(r"busbw tuner: .*1 rows, hash [0-9a-f]{16}", said)) == 2


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_where_the_table_has_no_row_the_sites_own_tuner_is_followed(tmp_path: Path) -> None:
    stand_in("site_tuner", tmp_path / "site.so", "INTERFACE=4")  # NCCL 2.24 and later know it
    table = tmp_path / "table.csv"
    table.write_text("allgather,1,1024,ring,ll,2,1,2,-1,-1\n")
    variables = {"BUSBW_TUNER_FILE": str(table), "BUSBW_TUNER_SITE": str(tmp_path / "site.so")}
    said = _run({"NCCL_TUNER_PLUGIN": str(tuner_path()), **variables, **LOGGED})
    assert _chosen(said) == {("RING", "LL128", "2")}  # channels 0 to 2


def _chosen(said: str) -> set[tuple[str, str, str]]:
    """Algorithm, protocol and last channel of the job's calls, by NCCL's log."""
    line = rf"AllGather: {BYTES // 2} Bytes -> Algo (\w+) proto (\w+) channel\S*=\{{0\.\.(\d+)\}}"
    return set(re.findall(line, said))


def _time_us(variables: dict[str, str]) -> float:
    found = re.search(r"us \d+ ([\d.]+)", _run(variables))
    assert found is not None
    return float(found[1])


def _run(variables: dict[str, str]) -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    ranks = [
        subprocess.Popen(
            [sys.executable, str(JOB), str(rank), "2", port, str(BYTES)],
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    said = "".join(rank.communicate(timeout=120)[0] for rank in ranks)
    assert [rank.returncode for rank in ranks] == [0, 0], said
    return said
