"""``--beside`` on CPU ranks of this machine, whose cores the load shares with the collective."""

from __future__ import annotations

from pathlib import Path

import pytest
from busbw_testing.runs import start

from busbw.record.folder import find_run
from busbw.record.read import read_record


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def test_a_run_beside_loads_says_what_they_do_and_keeps_the_rounds(home: Path) -> None:
    loads = ("--beside", "compute", "--beside", "memory:share=0")
    words = ("all_reduce", "-b", "64K", "-e", "64K", "--ranks", "2", *loads)
    done = start(home, "run", *words, "--backend", "mpi")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    (said,) = (line for line in lines if line.startswith("# beside compute all_reduce 64 KiB takes "))
    assert "times as long" in said
    assert any(line.startswith("# beside memory:share=0: a thread a rank") for line in lines)
    assert max(map(len, lines[lines.index("#") + 10 :])) <= 100
    record = read_record(find_run("last", home))
    (result,) = record.results
    compute, nothing = result.neighbours
    assert len(compute.alone_ns) == len(compute.beside_ns) == len(compute.work_beside)
    assert min(compute.work_alone) > 0
    assert set(nothing.work_alone) == {0.0}
    shown = start(home, "show", "last")
    assert said in shown.stdout.splitlines()
