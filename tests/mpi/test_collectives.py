"""Every collective x type x reduction x placement over the bundled MPI, in real processes."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import busbw
from busbw.record.read import read_record

MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
PROGRAM = Path(__file__).with_name("program.py")
FOREIGN = ("BUSBW_", "OMPI_", "PMI", "PMIX_", "SLURM_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_")

pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="the bundled mpich is not installed here")


def start(words: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    environment = {**kept, "PYTHONPATH": str(Path(busbw.__path__[0]).parent), **variables}
    return subprocess.run(
        words,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.fixture(scope="module", params=[2, 3, 4])
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    done = start([str(MPIEXEC), "-n", str(request.param), sys.executable, str(PROGRAM)])
    assert done.returncode == 0, done.stdout + done.stderr
    out: dict[str, Any] = json.loads(done.stdout)
    assert out["ranks"] == request.param
    return out


def test_every_case_is_right(found: dict[str, Any]) -> None:
    modes = [found[mode] for mode in ("rotating", "hot") if mode in found]
    assert len(modes) == (2 if found["ranks"] == 2 else 1)
    for mode in modes:
        # 8 types x (4 reductions x 2 placements, all_gather in 2 placements, sendrecv in 1).
        assert mode["checked"] == (3 if found["ranks"] == 2 else 1) * 8 * (4 * 2 + 2 + 1)
        assert mode["wrong"] == []


def test_each_check_uses_the_next_slot(found: dict[str, Any]) -> None:
    assert found["bad_slots"] == [0]


def test_every_rank_comes_to_the_same_verdict(found: dict[str, Any]) -> None:
    assert found["same"]


def test_one_rank_that_sends_other_data_is_noticed_and_where_it_arrives(found: dict[str, Any]) -> None:
    ranks = found["ranks"]
    damage = found["rotating"]["damage"]
    # What the last rank sends arrives everywhere; round the ring at rank 0 only.
    assert {at["rank"] for at in damage["all_reduce"]["wrong_at"]} == set(range(ranks))
    assert {at["rank"] for at in damage["all_gather"]["wrong_at"]} == set(range(ranks))
    assert [at["rank"] for at in damage["sendrecv"]["wrong_at"]] == [0]
    first_of_the_last_block = {at["first_offset"] for at in damage["all_gather"]["wrong_at"]}
    assert len(first_of_the_last_block) == 1
    assert first_of_the_last_block.pop() > 0


@pytest.mark.parametrize(("ranks", "hot"), [(3, []), (2, ["--hot"])], ids=["rotating", "hot"])
def test_ranks_of_our_own_start(tmp_path: Path, ranks: int, hot: list[str]) -> None:
    words = f"run all_reduce all_gather sendrecv --ranks {ranks} -b 12 -e 1200 -f 100 -n 20 -w 2 -c 2"
    words = f"{words} --format csv"
    done = start([sys.executable, "-m", "busbw", *words.split(), *hot], BUSBW_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == 3 * 2 * 2
    for row in rows:
        if row["status"] == "good":
            assert (row["ranks"], row["wrong"]) == (str(ranks), "0")
            assert int(row["samples"]) * int(row["calls_per_sample"]) == 20
            assert float(row["low_ns"]) <= float(row["time_ns"]) <= float(row["high_ns"])
        else:
            assert (row["collective"], row["placement"]) == ("sendrecv", "in-place")
    (folder,) = tmp_path.iterdir()
    record = read_record(folder)
    assert record.world is not None
    assert (record.world.kind, record.world.size) == ("mpi", ranks)
    assert record.world.ranks[0].library == "MPI"
    assert Path(record.world.ranks[0].library_path).is_file()
    assert record.method is not None
    assert record.method.buffers.startswith("one place" if hot else "rotating")


def test_somebody_elses_mpiexec_is_joined(tmp_path: Path) -> None:
    words = ["run", "all_reduce", "-b", "8", "-e", "64", "-n", "20"]
    done = start([str(MPIEXEC), "-n", "2", sys.executable, "-m", "busbw", *words], BUSBW_HOME=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    assert [row[0] for row in rows] == ["8", "16", "32", "64"]
    assert {row[9] for row in rows} == {row[14] for row in rows} == {"0"}
    assert len(list(tmp_path.iterdir())) == 1
