from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "benchmarks" / "gpu"


def host(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    few = ("--ranks", "2", "--backend", "mpi", "--last", "4K", "--output", str(folder))
    command = [sys.executable, str(PROGRAMS / "host.py"), *few, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.slow
def test_host_answers_with_tables_and_keeps_what_they_are_made_of(tmp_path: Path) -> None:
    done = host(tmp_path, "--only", "pairs,groups", "--seconds", "90")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"host.md", "host.json", "host.txt", "runs.tar.gz"}
    told = (tmp_path / "host.md").read_text()
    assert told.startswith("## One host (2 x ")
    assert "| pairs | 1 | 1 | " in told
    assert "| 2 | 0, 1 | 4 KiB | " in told
    steps = json.loads((tmp_path / "host.json").read_text())["steps"]
    assert [step["problem"] for step in steps.values()] == ["", ""]
    assert "# exit code 0" in (tmp_path / "host.txt").read_text()
    with tarfile.open(tmp_path / "runs.tar.gz") as archive:
        names = [name for name in archive.getnames() if name.endswith("run.json")]
    assert len(names) == 2


@pytest.mark.slow
def test_host_goes_on_when_a_step_has_no_time_and_says_so(tmp_path: Path) -> None:
    done = host(tmp_path, "--only", "pairs,groups", "--seconds", "10.5")  # 10 of them are for ending
    assert done.returncode == 1
    told = (tmp_path / "host.md").read_text()
    assert told.count("**Failed**: StepFailed: -m busbw ") == 2
    assert told.count("ran out of its time") == 2


def test_fidelity_of_a_kept_run_is_told_as_the_readme_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROGRAMS))
    import fidelity
    import host_tables

    folder = PROGRAMS / "results" / "2026-11-21-h200-operations"
    kept = json.loads((folder / "fidelity-plain-2gpu.json").read_text())
    told = "\n".join(host_tables.fidelity_lines([kept]))
    assert "3 rounds, NCCL 2.28.9." in told
    assert "|  | 8 B | 128 B | 2 KiB | 32 KiB | 512 KiB | 8 MiB | 128 MiB | 2 GiB |" in told
    counts = ("191 same", "13 DIFFERS", "296 cannot tell")
    assert all(count in told for count in counts)
    rows = {(row.op, row.key): row for row in fidelity.compare(kept["rounds"])}
    cut_short = [*kept["rounds"], {"all_reduce": {"nccl-tests": {"8 in-place": 1.0}}}]
    assert fidelity.compare(cut_short) == list(rows.values())
    assert f"{rows['all_reduce', str(2**31) + ' out-of-place'].ratio:.3f}" == "1.011"


@pytest.mark.parametrize(
    ("last", "ends"), [("2G", ["16M", "2G"]), ("8G", ["16M", "8G"]), ("16M", ["16M"]), ("1M", ["1M"])]
)
def test_fidelity_goes_to_the_last_size(last: str, ends: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROGRAMS))
    import fidelity

    assert [end for _, end, _, _ in fidelity.ranges(fidelity.VARIANTS["plain"], "8", last, None)] == ends


def test_limits_have_a_row_for_each_algorithm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROGRAMS))
    import host_tables

    def case(size: int, algorithm: str, rate: float, answer: str) -> dict[str, object]:
        ratio = 1.0 if answer == "expected" else None
        return {
            "collective": "all_reduce",
            "placement": "in-place",
            "size_bytes": size,
            "algorithm": algorithm,
            "answer": answer,
            "busbw_gb_per_s": rate,
            "limit_gb_per_s": 450.0,
            "percent_of_limit": rate / 4.5,
            "ratio": ratio,
        }

    cases = [
        case(2**30, "RING SIMPLE", 360.0, "expected"),
        case(2**20, "RING SIMPLE", 90.0, "no reference"),
        case(8, "RING LL", 0.0, "no reference"),
        case(0, "RING LL", 0.0, "no reference"),
    ]
    large, small = host_tables.limits(cases)[2:]
    assert "RING SIMPLE | 1 MiB - 1 GiB | 360.0 | 450.0 | 80 | 1.000 | 1 no reference, 1 expected |" in large
    assert "RING LL | 8 B - 8 B | 0.0 | 450.0 | 0 | n/a | 1 no reference |" in small


@pytest.mark.slow
def test_a_sweep_is_split_into_its_steps_and_a_kept_one_is_shown_again(
    script: Callable[..., str], tmp_path: Path
) -> None:
    few = ("--backend", "null", "--last", "1K", "--launches", "1", "--output", str(tmp_path / "split.json"))
    told = script("gpu/sweep_split.py", *few)
    split = json.loads((tmp_path / "split.json").read_text())
    (launch,) = split
    sweep_s = launch["ended"] - launch["began"]
    assert sum(launch["spent"].values()) == pytest.approx(sweep_s, rel=0.05)
    for step in ("samples", "warm-up", "checks", "agreements", "decisions", "record, events"):
        assert f"| {step} | " in told
    # Eight sizes, two placements, nine passes; none is missing, and none is counted twice.
    assert launch["calls"]["visits"] == 8 * 2 * 9
    assert script("gpu/sweep_split.py", "--read", str(tmp_path / "split.json")) == told


@pytest.mark.slow
def test_sweeps_of_one_launch_are_held_against_each_other(script: Callable[..., str], tmp_path: Path) -> None:
    few = ("--backend", "mpi", "--last", "1K", "--sweeps", "3", "--launches", "2")
    told = script("gpu/within_launch.py", *few, "--output", str(tmp_path / "within.json"))
    launches = json.loads((tmp_path / "within.json").read_text())
    assert [len(cases) for cases in launches] == [3 * 8 * 2] * 2  # sweeps, sizes and placements
    printed, own = told.splitlines()[2:]
    assert printed.startswith("| below 1 MiB | printed | ")
    assert own.startswith("| below 1 MiB | by own passes | ")
    held = [float(line.split("|")[3]) for line in (printed, own)]
    assert 0 <= held[1] <= held[0] <= 1
    assert script("gpu/within_launch.py", "--read", str(tmp_path / "within.json")) == told


@pytest.mark.slow
def test_sweeps_take_turns_and_are_shown_over_each_other(script: Callable[..., str], tmp_path: Path) -> None:
    words = ("--ranks", "2", "--backend", "null", "--last", "64", "--rounds", "2", "--old", sys.executable)
    lines = script("gpu/sweep_time.py", *words, "--output", str(tmp_path / "sweep.json")).splitlines()
    assert lines[0] == "all_reduce, 8 B - 64, 2 ranks, 2 rounds, null"
    assert [line[:26].strip() for line in lines[2:]] == ["busbw", "busbw, old"]
    kept = json.loads((tmp_path / "sweep.json").read_text())
    assert {len(seconds) for arms in kept.values() for seconds in arms.values()} == {2}
