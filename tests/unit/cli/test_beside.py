"""``--beside`` on CPU ranks of this machine, whose cores the load shares with the collective."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from busbw_testing.runs import start

from busbw.record.folder import find_run
from busbw.record.read import read_record


def said_of(what: str, case: str) -> tuple[str, str]:
    """How the answer begins; a busy machine has too few rounds for one."""
    return f"# beside {what}: {case} takes ", f"# beside {what}: too few rounds to say: "


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def test_a_run_beside_loads_says_what_they_do_and_keeps_the_rounds(home: Path) -> None:
    loads = ("--beside", "compute", "--beside", "memory:share=0")
    words = ("all_reduce", "-b", "64K", "-e", "64K", "--ranks", "2", *loads)
    done = start(home, "run", *words, "--backend", "mpi")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    (said,) = (line for line in lines if line.startswith(said_of("compute", "all_reduce 64 KiB")))
    assert any(line.startswith("# beside memory:share=0: a thread a rank") for line in lines)
    assert max(map(len, lines[lines.index("#") + 10 :])) <= 100
    assert "in-place" not in done.stdout  # no half of the table for what was not measured
    record = read_record(find_run("last", home))
    (result,) = record.results
    compute, nothing = result.neighbours
    assert len(compute.alone_ns) == len(compute.beside_ns) == len(compute.work_beside)
    assert min(compute.work_alone) > 0
    assert set(nothing.work_alone) == {0.0}
    shown = start(home, "show", "last")
    assert said in shown.stdout.splitlines()
    assert said in start(home, "show", "last", "--case", "0").stdout.splitlines()
    (told,) = json.loads(start(home, "show", "last", "--format", "json").stdout)["results"]
    factors = [told["neighbours"][0][name] for name in ("mean", "median", "left", "sum")]
    assert all(each["value"] > 0 for each in factors)
    assert factors[0]["value"] == pytest.approx(compute.mean.value)
    head, row = start(home, "show", "last", "--format", "csv").stdout.splitlines()
    assert head.endswith(",beside compute,beside memory:share=0")
    assert all(0 < float(cell) < 1000 for cell in row.split(",")[-2:])


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ("2", ("alltoall", "--beside", "alltoall", "-b", "64K")),
        ("4", ("all_reduce", "--beside", "alltoall:ranks=odd,size=64K", "-b", "1K", "--mode", "latency")),
    ],
    ids=["on the same ranks", "on other ranks"],
)
def test_a_neighbour_runs_through_the_samples(home: Path, ranks: str, words: tuple[str, ...]) -> None:
    done = start(home, "run", *words, "--ranks", ranks, "--backend", "mpi", "--case-time", "0.1s")
    assert done.returncode == 0, done.stderr
    record = read_record(find_run("last", home))
    (result,) = record.results
    assert result.wrong == 0
    (beside,) = result.neighbours
    assert len(beside.alone_ns) == len(beside.beside_ns) == len(beside.work_beside)
    assert sorted(beside.work_beside)[len(beside.work_beside) // 2] > 0.5  # under way
    said = said_of(words[2], f"{words[0]} {words[4][:-1]} KiB")
    lines = done.stdout.splitlines()
    assert any(line.startswith(said) for line in lines), done.stdout
    assert ("# beside   ranks 1,3 run alltoall; ranks 0,2 are measured" in lines) is (ranks == "4")
    assert sum(not line.startswith("#") for line in lines) == 1
    assert record.plan.groups == (((0, 2),) if ranks == "4" else ())
