"""Ranks that processes of a launcher start (``-t`` and ``-g`` above 1), with scripted times instead of GPUs:
their number, their order, and one output for all.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from busbw_testing.environ import clean_environ
from busbw_testing.nccl_tests_format import read_output

from busbw.record.folder import run_folders
from busbw.record.read import read_record

MPIEXEC: Final = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
BUSBW: Final = (sys.executable, "-m", "busbw", "nccl-tests")
PATIENCE_S: Final = 100
WORDS: Final = ("all_reduce_perf", "-b", "1K", "-e", "4K", "-f", "4", "-c", "0")
TORCHRUN: Final = {
    "RANK": "{}",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "{}",
    "LOCAL_WORLD_SIZE": "2",
    "TORCHELASTIC_RUN_ID": "a",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "1",
}


def start(tmp_path: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    environ = clean_environ(BUSBW_HOME=str(tmp_path / "home"), BUSBW_BACKEND="null", **variables)
    return subprocess.Popen(
        words,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    return out, err


def ranks_in(tmp_path: Path) -> list[tuple[int, int | None]]:
    """Numbers and local numbers of the only record's ranks."""
    (folder,) = run_folders(tmp_path / "home")
    world = read_record(folder).world
    assert world is not None
    return [(rank.rank, rank.local_rank) for rank in world.ranks]


@pytest.mark.slow
@pytest.mark.skipif(MPIEXEC is None, reason="the bundled mpich is not installed here")
def test_mpirun_with_two_ranks_a_process(tmp_path: Path) -> None:
    words = (str(MPIEXEC), "-n", "2", *BUSBW, *WORDS, "-t", "2", "-g", "1", "-J", "out.json")
    out, err = finish(start(tmp_path, *words, NCCL_TESTS_SPLIT="MOD 2"))
    assert "ranks 4 = processes 2 (started by mpich) x threads 2 x GPUs 1; each rank is a process" in err
    output = read_output(out)
    assert [row.size for row in output.rows] == [1024, 4096]
    devices = [line.split() for line in out.splitlines() if line.startswith("#  Rank ")]
    assert [(words[2], words[4]) for words in devices] == [("0", "0"), ("1", "0"), ("2", "1"), ("3", "1")]
    assert ranks_in(tmp_path) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert json.loads((tmp_path / "out.json").read_text())["config"]["nthreads"] == 2


@pytest.mark.slow
def test_a_launcher_without_mpi(tmp_path: Path) -> None:
    """With the variables that torchrun sets."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        token = str(probe.getsockname()[1])  # a job of its own beside others of these tests
    processes = [
        start(
            tmp_path,
            *BUSBW,
            *WORDS,
            "-g",
            "2",
            **{name: value.format(number) for name, value in TORCHRUN.items()},
            BUSBW_TOKEN=token,
        )
        for number in range(2)
    ]
    (out, err), silent = (finish(process) for process in processes)
    assert silent == ("", "")
    assert "ranks 4 = processes 2 (started by torchrun) x threads 1 x GPUs 2;" in err
    assert len(read_output(out).rows) == 2
    assert ranks_in(tmp_path) == [(0, 0), (1, 1), (2, 2), (3, 3)]
