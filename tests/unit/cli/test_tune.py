"""`busbw tune`: what it refuses, what it writes, and a whole tuning on a stand-in for NCCL."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.environ import clean_environ
from busbw_testing.tuner_table import rows_of

from busbw.judge.tune import Tuned, Tuning
from busbw.record.folder import TUNING_FILE

STAND_INS = Path(__file__).parents[1] / "machine" / "stand_ins"


@pytest.fixture
def tuning(tmp_path: Path) -> Path:
    """A home with one tuning, in which one size was confirmed."""
    run = tmp_path / "a home" / "20261128-120000-all_reduce-abcd"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    ring = Tuned("all_reduce", "float", "sum", 4096, 1000.0, arm="ring/ll128/24", confirmed=0.1)
    nothing = replace(ring, size_bytes=8192, arm="", confirmed=None)
    whole = Tuning(1, 4, (ring, nothing), was_confirmed=True)
    (run / TUNING_FILE).write_text(json.dumps(asdict(whole)))
    return run


def test_the_plugin_is_a_file_that_a_job_can_load(called: Any, tmp_path: Path) -> None:
    code, out, _ = called(tmp_path, "tune", "--plugin")
    assert code == 0
    assert Path(out.strip()).is_file()


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (("alltoall",), "NCCL does not ask a tuner about alltoall", "all_reduce"),
        ((), "no operation given", "busbw tune all_reduce,all_gather"),
        (("all_reduce", "-d", "float,half"), "tune takes one value of -d", "one choice for a size"),
        (("all_reduce", "--on", "slurm", "-N", "2,4"), "tune takes one value of -N", "for each value"),
        (("all_reduce", "--on", "slurm", "-N", "2", "--detach"), "tune cannot run detached", "leave --det"),
        (("all_reduce", "--backend", "mpi"), "have no NCCL", "--knobs knobs.yaml"),
        (("all_reduce", "--blocks", "101"), "--blocks is too large", "give 100 or less"),
        (("nothing", "--emit", "env"), "no run 'nothing'", "busbw list"),
    ],
)
def test_what_cannot_be_tuned_says_what_can(
    called: Any, tuning: Path, words: tuple[str, ...], error: str, hint: str
) -> None:
    code, _, said = called(tuning.parent, "tune", *words)
    assert code == 2
    assert error in said
    assert hint in said


def test_what_was_confirmed_is_written_for_its_readers(
    called: Any, tuning: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_TUNER_PLUGIN", "/opt/site/tuner.so")
    table = tmp_path / "table.csv"
    assert called(tuning.parent, "tune", "last", "--emit", "nccl-csv", "--output", str(table))[0] == 0
    assert rows_of(table) == 1
    assert "allreduce,4096,5792,ring,ll128,24,1,4,-1,-1" in table.read_text()
    code, out, _ = called(tuning.parent, "tune", tuning.name, "--emit", "env")
    assert code == 0
    words = shlex.split(out)  # as a shell reads it: the folder has a blank
    variables = dict(word.split("=", 1) for word in words if word != "export")
    assert rows_of(Path(variables["BUSBW_TUNER_FILE"])) == 1
    assert Path(variables["NCCL_TUNER_PLUGIN"]).is_file()
    assert variables["BUSBW_TUNER_SITE"] == "/opt/site/tuner.so"  # asked for what the table has not
    code, out, _ = called(tuning.parent, "tune", tuning.name, "--emit", "nccl-conf")
    assert dict(line.split("=", 1) for line in out.splitlines()) == variables  # NCCL knows no quotes


def test_a_damaged_tuning_is_named(called: Any, tuning: Path) -> None:
    path = tuning / TUNING_FILE
    path.write_text(path.read_text().replace('"ranks": 4', '"ranks": "4"'))
    code, _, said = called(tuning.parent, "show", "last")
    assert code == 2
    assert "tuning.json: ranks: input should be a valid integer" in said


def test_a_tuning_is_shown_as_it_ended(called: Any, tuning: Path) -> None:
    code, out, _ = called(tuning.parent, "show", "last")
    assert code == 0
    assert out.startswith("# 1 of 2 cases gain, at most 10.0% (all_reduce 4 KiB by RING LL128, 24 channels)")


@pytest.mark.slow
def test_a_whole_tuning_finds_confirms_and_writes_what_is_faster(tmp_path: Path) -> None:
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang", "g++"))), None)
    if compiler is None:
        pytest.skip("no C compiler for the stand-in libraries")
    for source, name in (("cuda", "libcuda.so.1"), ("nccl", "libnccl.so.2")):
        words = [compiler, "-x", "c", "-w", "-shared", "-fPIC", "-DVERSION=22809", "-DSTREAMS"]
        subprocess.run([*words, str(STAND_INS / f"{source}.c"), "-o", str(tmp_path / name)], check=True)
    environ = clean_environ(
        LD_LIBRARY_PATH=str(tmp_path),
        BUSBW_NCCL=str(tmp_path),
        BUSBW_HOME=str(tmp_path / "home"),
        STAND_IN_TIMED="1",
    )
    environ["STAND_IN_HANGS"] = "0/0/4"  # a tree with LL and four channels
    environ["STAND_IN_DIES"] = "0/0/8"  # in its second pass
    words = ["all_reduce", "-b", "64K", "-e", "64K", "--ranks", "2", "--check", "0", "--format", "json"]
    words += ["--stall", "3s"]
    done = subprocess.run(
        [sys.executable, "-m", "busbw", "tune", *words, "--blocks", "3"],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    page = tmp_path / "tune.md"
    words = ["report", told["run"], "--output", str(page)]
    assert subprocess.run([sys.executable, "-m", "busbw", *words], env=environ, check=False).returncode == 0
    assert "| all_reduce | 64 KiB |" in page.read_text()
    assert told["lost"] == ["all_reduce tree/ll/4", "all_reduce tree/ll/8"]
    (found,) = told["tuned"]
    assert found["arm"] == "ring/ll128/24"
    assert found["gain"] == pytest.approx(0.5, abs=0.1)
    # On a busy machine three launches a side leave it open.
    assert found["verdict"] in ("FASTER", "AMBIGUOUS")
