"""`busbw tune --knobs`: values that need a launch, one variable after the other."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from busbw_testing.runs import start

from busbw.cli.tune import AS_IT_IS, tune_knobs
from busbw.errors import UsageError
from busbw.judge.compare import Verdict
from busbw.judge.compare_arms import CaseKey
from busbw.plan.setup_file import read_knobs
from busbw.plan.setups import Setup

KEY = CaseKey("all_reduce", "float", "sum", -1, "out-of-place", 65536)
FAST = {"A": "2", "B": "y"}  # what makes launches faster, alone and together


def knobs(tmp_path: Path) -> Path:
    path = tmp_path / "knobs.yaml"
    path.write_text("A: [1, 2]\nB: [x, y]\nC: [0]\n")
    return path


class Launches:
    """What a machine would show on which every right value saves a tenth, and C=0 fails."""

    def __init__(self, fast: dict[str, str]) -> None:
        self.fast = fast
        self.seen: list[tuple[Setup, ...]] = []

    def __call__(self, setups: tuple[Setup, ...]) -> Any:
        self.seen.append(setups)
        first, *others = (
            [self.fast.get(name) == value for name, value in each.environ.items()] for each in setups
        )
        rows, failed = [], {}
        for setup, right in zip(setups[1:], others, strict=True):
            verdict = Verdict.FASTER if sum(right) > sum(first) else Verdict.SAME
            if "C" in setup.environ:
                verdict, failed[setup.name] = Verdict.FAILED, {"all": "it hung"}
            speedup = 1.25 if verdict is Verdict.FASTER else 1.0
            rows.append(SimpleNamespace(key=KEY, arm=setup.name, verdict=verdict, speedup=speedup))
        arms = [
            SimpleNamespace(name=each.name, failures=failed.get(each.name, {}), wrong="") for each in setups
        ]
        return SimpleNamespace(baseline=arms[0], candidates=tuple(arms[1:]), rows=tuple(rows))


def test_each_variable_is_tried_on_top_of_the_best_so_far_and_all_are_confirmed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launches = Launches(FAST)
    assert tune_knobs(knobs(tmp_path), launches, "table") == 0
    environs = [[dict(each.environ) for each in setups] for setups in launches.seen]
    assert environs[1] == [{"A": "2"}, {"A": "2", "B": "x"}, {"A": "2", "B": "y"}]
    assert environs[-1] == [{}, FAST]
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "# 1 of 1 cases gain, at most 20.0% (all_reduce 64 KiB out-of-place), with A=2, B=y"
    assert out[1] == "# tried: A=2 saves 20.0%"
    assert out[3].startswith("# tried: C: no value is faster")
    assert out[-2] == "# tried: C=0 is out: a launch failed or had wrong data"
    assert max(map(len, out)) <= 100
    assert out[-1] == "# next: export A=2 B=y"


def test_long_names_fold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fast = {f"MPIR_CVAR_ALLREDUCE_{name}_INTRA_ALGORITHM": "reduce_scatter_allgather" for name in ("A", "B")}
    (tmp_path / "knobs.yaml").write_text("".join(f"{name}: [{value}]\n" for name, value in fast.items()))
    assert tune_knobs(tmp_path / "knobs.yaml", Launches(fast), "table") == 0
    *remarks, export = capsys.readouterr().out.splitlines()
    assert max(map(len, remarks)) <= 100
    assert all(line.startswith("# ") for line in remarks)
    assert export.endswith(" ".join(f"{name}={value}" for name, value in fast.items()))


def test_nothing_to_gain_needs_no_confirmation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launches = Launches({})
    assert tune_knobs(knobs(tmp_path), launches, "table") == 0
    assert capsys.readouterr().out.startswith("# nothing to gain: no value is faster")
    assert {setups[0].name for setups in launches.seen} == {AS_IT_IS}
    assert len(launches.seen) == 3


@pytest.mark.parametrize("text", ["", "A: 1\n", "A: []\n", "- A\n", "a b: [1]\n", "A: [[1]]\n"])
def test_a_file_that_holds_no_knobs_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "knobs.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"knobs\.yaml"):
        read_knobs(path)


def test_a_dry_run_shows_what_would_be_launched_and_starts_nothing(tmp_path: Path) -> None:
    words = ("tune", "all_reduce", "-b", "8", "--ranks", "2", "--backend", "mpi", "--blocks", "2")
    done = start(tmp_path / "home", *words, "--knobs", str(knobs(tmp_path)), "--dry-run")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == ["# A: as it is, 1, 2", "# B: as it is, x, y", "# C: as it is, 0"]
    assert lines[3].startswith("# at most 20 launches: 2 blocks a variable")
    assert any(line.startswith("all_reduce float sum 8 B") for line in lines)
    assert not list((tmp_path / "home").rglob("*.json"))
