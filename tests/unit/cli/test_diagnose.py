"""busbw diagnose as a user starts it: text, JSON with stable ids, exit codes, published logs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from busbw_testing.compared import nccl_tests_log, record_of, write
from busbw_testing.runs import NULL, start

from busbw.cli.diagnose import diagnosed
from busbw.model.conclusion import Answer
from busbw.model.sample import SAMPLE_DTYPE
from busbw.record.folder import NSYS_FOLDER, RUN_FILE, SAMPLES_FILE, run_folders
from busbw.record.read import read_record, read_samples

QUESTIONS = ("whole", "expected", "links", "algorithm", "variance", "ranks")


def test_a_run_has_an_answer_to_every_question(tmp_path: Path) -> None:
    assert start(tmp_path, "run", "all_reduce", *NULL, "-b", "8", "-e", "1M", "-f", "4").returncode == 0
    done = start(tmp_path, "diagnose")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [word for line in lines for word in QUESTIONS if line.startswith(f"{word} ")] == list(QUESTIONS)
    assert len(lines) == len(QUESTIONS) + 3  # the run before them; a warning and what to do next after them
    assert max(map(len, lines)) <= 100
    whole = start(tmp_path, "diagnose", "--all").stdout.splitlines()
    assert "ranks      YES             Is every rank the same?" in whole
    assert max(map(len, whole)) <= 100


def test_settings_of_a_users_own_preset_are_no_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its file is known; a setting of nobody's preset still is one."""
    file = tmp_path / "ours.yaml"
    file.write_text("family: ours\npresets: {ring: {env: {NCCL_ALGO: Ring}}}")
    record = record_of({1024: 10.0}, ranks=4)
    record = replace(
        record, plan=replace(record.plan, backend="nccl"), settings={"presets_used": ["ours/ring@"]},
        environment={"variables": {"NCCL_ALGO": "Ring"}},
    )  # fmt: skip
    monkeypatch.delenv("BUSBW_PRESET_FILES", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nothing"))
    assert "algorithm.forced" in {each.check for each in diagnosed(record, None).conclusions}
    monkeypatch.setenv("BUSBW_PRESET_FILES", str(file))
    told = {each.check: each for each in diagnosed(record, None).conclusions}
    assert "algorithm.forced" not in told
    assert "NCCL_ALGO=Ring (preset ours/ring@)" in told["algorithm.preset"].claim


def test_a_log_gets_what_its_data_allow(tmp_path: Path) -> None:
    log = nccl_tests_log({2**power: 10.0 for power in range(10, 20)}, 8)
    tuned = "node0:1:1 [0] NCCL INFO AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}\n"
    forced = "node0:1:1 [0] NCCL INFO NCCL_ALGO set by environment to Ring.\n"
    path = write(tmp_path / "a.log", tuned + forced + log)
    done = start(tmp_path, "diagnose", str(path), "--all")
    assert done.returncode == 1  # a warning: the algorithm was forced
    assert "all_reduce: RING LL, 2 channels at 1 KiB" in done.stdout
    assert "the library did not choose freely: NCCL_ALGO=Ring" in done.stdout
    assert done.stdout.count("NOT OBSERVABLE") == 4
    bare = write(tmp_path / "b.log", log)
    assert start(tmp_path, "diagnose", str(bare)).returncode == 3


def test_samples_that_are_missing_are_said_by_who_judges_them(tmp_path: Path) -> None:
    """A killed run or a full disk leaves less than was measured: the judgement is of the rest."""
    assert start(tmp_path, "run", "all_reduce", *NULL, "-b", "8", "-e", "16", "-n", "8").returncode == 0
    (run,) = run_folders(tmp_path)
    path, rows = run / SAMPLES_FILE, read_samples(run)
    path.write_bytes(rows.tobytes()[: 5 - 2 * SAMPLE_DTYPE.itemsize])
    done = start(tmp_path, "diagnose")
    assert f"warning: {path} is cut" in done.stderr
    assert f"warning: {run.name}: samples of case 3 are missing: " in done.stderr
    assert "samples of case 3 are missing: " in done.stdout
    assert done.returncode == 1


@pytest.mark.slow
def test_an_interrupted_run_says_so_wherever_it_is_shown(tmp_path: Path) -> None:
    assert start(tmp_path, "run", "all_reduce", *NULL, "-b", "8", "-e", "16", "-n", "8").returncode == 0
    (run,) = run_folders(tmp_path)
    record = json.loads((run / RUN_FILE).read_text())
    record |= {"status": "interrupted", "results": [*record["results"][:3], {"case": 3, "status": "not-run"}]}
    (run / RUN_FILE).write_text(json.dumps(record))
    done = start(tmp_path, "diagnose")
    assert done.returncode == 1
    assert "the run was interrupted; 1 of 4 cases was not measured" in done.stdout
    assert start(tmp_path, "show", "last").stderr.splitlines()[-1].startswith("the run was interrupted")
    assert start(tmp_path, "report", "last", "--output", str(tmp_path / "a.md")).returncode == 0
    assert "**problem**: interrupted: 1 of 4 cases was not measured\n" in (tmp_path / "a.md").read_text()


def test_a_report_of_nsight_systems_without_an_export_is_told(tmp_path: Path) -> None:
    start(tmp_path, "run", "all_reduce", "-b", "8", "-e", "8", *NULL)
    (folder,) = run_folders(tmp_path)
    write(folder / NSYS_FOLDER / "rank-00000-vm.nsys-rep", "a report")
    found = diagnosed(read_record(folder), folder)
    told = [each for each in found.conclusions if each.check.endswith((".profiled", ".kernels"))]
    assert {each.answer for each in told} == {Answer.NOT_OBSERVABLE}
    assert any("nsys export --type sqlite" in each.hint for each in told)
    assert any("rank-00000-vm.nsys-rep" in each.evidence for each in told)
