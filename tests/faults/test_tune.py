"""A race of values of which one hangs and one delivers wrong data: neither wins, and neither ends it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SIZE = ("all_reduce", "-b", "64K", "-e", "64K")
WORDS = (*SIZE, "--ranks", "2", "--backend", "mpi", "-n", "8", "--stall", "3s")


def test_an_interrupt_ends_the_whole_tuning(launcher: Any, tmp_path: Path, mpiexec: str) -> None:
    del mpiexec
    knobs = tmp_path / "knobs.yaml"
    knobs.write_text("FIRST: [1]\nSECOND: [1]\n")
    run = launcher.begin("tune", *WORDS, "--knobs", str(knobs))
    run.until(lambda: "block 1 of 3" in run.err)
    run.interrupt()
    assert run.finish().code == 130
    series = list((tmp_path / "home").glob("*setups*"))
    assert len(series) == 1  # that of the first variable


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_a_hanging_and_a_wrong_value_are_out_and_the_fast_one_is_taken(
    launcher: Any, tmp_path: Path, mpiexec: str, planted: str
) -> None:
    del mpiexec  # MPICH is here
    knobs = tmp_path / "knobs.yaml"
    knobs.write_text("PLANTED_ALGORITHM: [hang, wrong, 8000, 80000]\n")
    words = ("tune", *WORDS, "--knobs", str(knobs), "--blocks", "2", "--format", "json")
    environ = {"LD_PRELOAD": planted, "PLANTED_UNSET_ALGORITHM": "30000"}
    run = launcher.begin(*words, **environ)
    assert run.process.wait() == 0, run.err
    assert json.loads(run.out)["taken"] == {"PLANTED_ALGORITHM": "8000"}
    assert "WRONG DATA" in run.err
    assert "does not return" in run.err
    race, confirmation = sorted((tmp_path / "home").glob("*setups*"))
    made = [len(list((series / "launches").iterdir())) for series in (race, confirmation)]
    assert made == [5 + 2, 4]  # one block of all, one of how it is and of the fast value
