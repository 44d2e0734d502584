"""The whole pipeline as a user calls it, on the null backend, whose times are known."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.compared import csv_rows
from busbw_testing.environ import FOREIGN
from busbw_testing.runs import NULL, start

from busbw.cli.main import main
from busbw.errors import ExitCode
from busbw.machine.gpus import GpuPresence
from busbw.model.event import decode
from busbw.model.record import RunStatus
from busbw.record.close import close
from busbw.record.folder import RUN_FILE, made
from busbw.record.read import read_digests, read_record, read_samples


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def measured(home: Path) -> subprocess.CompletedProcess[str]:
    """One run that the tests below look at from all sides."""
    words = ("all_gather", "sendrecv", "-b", "1K", "-e", "4K", "-f", "4", *NULL)
    done = start(home, "run", *words, "--format", "csv")
    assert done.returncode == 0, done.stderr
    return done


def test_times_and_bandwidths_are_exact(measured: subprocess.CompletedProcess[str]) -> None:
    assert (measured.stderr, len(measured.stdout.splitlines())) == ("", 9)
    # A call of the null backend takes 1 us and 1 ns for every 100 bytes.
    got = [
        (row["collective"], row["size_bytes"], row["placement"], row["time_ns"])
        for row in csv_rows(measured.stdout)
    ]
    assert got == [
        ("all_gather", "1024", "out-of-place", "1010.0"),
        ("all_gather", "1024", "in-place", "1010.0"),
        ("all_gather", "4096", "out-of-place", "1040.0"),
        ("all_gather", "4096", "in-place", "1040.0"),
        ("sendrecv", "1024", "out-of-place", "1010.0"),
        ("sendrecv", "1024", "in-place", ""),
        ("sendrecv", "4096", "out-of-place", "1040.0"),
        ("sendrecv", "4096", "in-place", ""),
    ]
    first, in_place = csv_rows(measured.stdout)[0], csv_rows(measured.stdout)[5]
    assert float(first["algbw_gb_per_s"]) == pytest.approx(1024 / 1010)
    assert float(first["busbw_gb_per_s"]) == pytest.approx(1024 / 1010 / 2)
    assert (first["status"], first["ranks"], first["stop"], first["wrong"]) == ("good", "2", "precision", "")
    assert (in_place["status"], in_place["busbw_gb_per_s"]) == ("not-applicable", "")


def test_the_record_holds_the_run(measured: subprocess.CompletedProcess[str], home: Path) -> None:
    (folder,) = home.glob("2*")
    record = read_record(folder)
    assert (record.status, record.run_id) == ("complete", folder.name)
    assert folder.name.split("-")[2] == "all_gather+sendrecv"
    assert "all_gather" in record.argv
    assert record.settings["maxbytes"] == "4K"
    assert record.world is not None
    assert (record.world.size, [rank.rank for rank in record.world.ranks]) == (2, [0, 1])
    times = [1010.0, 1010.0, 1040.0, 1040.0, 1010.0, 1040.0]
    assert [result.time_ns for result in record.results if result.time_ns] == times
    samples, digests = read_samples(folder), read_digests(folder)
    assert sorted(set(samples["rank"].tolist())) == [-2, -1, 0, 1]
    assert sorted(set(samples["case"].tolist())) == [0, 1, 2, 3, 4, 6]
    assert (samples["elapsed_ns"][samples["case"] == 2] == 1040 * samples["k"][samples["case"] == 2]).all()
    assert len(digests) == 6 * 2
    assert (folder / "request" / "commands.txt").read_text().count("busbw.rank") == 2
    assert "BUSBW_TOKEN=..." in (folder / "request" / "commands.txt").read_text()


def test_show_repeats_a_table_to_the_letter(tmp_path: Path, called: Any) -> None:
    first = start(tmp_path, "run", "all_reduce", "-b", "8", "-e", "64", *NULL)
    assert first.returncode == 0, first.stderr
    assert called(tmp_path, "show") == (0, first.stdout, "")
    assert first.stdout.splitlines()[-1].startswith("# next: `busbw ")


def test_show_has_the_record_and_the_stream_too(
    measured: subprocess.CompletedProcess[str], home: Path, called: Any
) -> None:
    (folder,) = home.glob("2*")
    assert called(home, "show", folder.name, "--format", "json")[1] == (folder / RUN_FILE).read_text()
    events = [decode(line) for line in called(home, "show", "--format", "jsonl")[1].splitlines()]
    assert [event and event["event"] for event in events] == ["header", *["case"] * 8, "end"]


def test_list_has_the_run(measured: subprocess.CompletedProcess[str], home: Path, called: Any) -> None:
    (folder,) = home.glob("2*")
    assert json.loads(called(home, "list", "--format", "json")[1]) == [
        {
            "run": folder.name,
            "name": "",
            "tags": [],
            "kind": "run",
            "made": made(folder).isoformat(),
            "status": "complete",
            "verdict": "complete",
            "backend": "null",
            "ranks": 2,
            "device": "scripted times",
            "cases": "8/8",
            "operations": "all_gather,sendrecv",
            "least_bytes": 1024,
            "most_bytes": 4096,
            "peak_busbw_gb_per_s": 4096 / 1040,
        }
    ]
    heading, row = called(home, "list")[1].splitlines()
    assert heading.split()[:3] == ["run", "age", "name"]
    assert row.split()[0] == folder.name
    assert row.split()[-2:] == ["complete", "-"]


def test_a_run_that_was_killed_before_it_had_a_record_never_started(tmp_path: Path, called: Any) -> None:
    assert start(tmp_path, "run", "sendrecv", "-b", "8", "-e", "16", *NULL).returncode == 0
    (folder,) = tmp_path.glob("2*")
    (folder / RUN_FILE).unlink()
    assert called(tmp_path, "list")[1].split()[-3:] == ["not", "started", "-"]
    code, out, err = called(tmp_path, "show")
    assert (code, out) == (2, "")
    assert f"the run in {folder} never started" in err
    (folder / "request" / "request.json").write_text("{")
    assert "unreadable" in called(tmp_path, "list")[1]


def test_a_run_that_ended_early_shows_what_it_has(tmp_path: Path, called: Any) -> None:
    assert start(tmp_path, "run", "all_reduce", "-b", "8", "-e", "16", *NULL).returncode == 0
    (folder,) = tmp_path.glob("2*")
    fields = json.loads((folder / RUN_FILE).read_text())
    fields["results"] = fields["results"][:2]
    (folder / RUN_FILE).write_text(json.dumps(fields))
    close(folder, RunStatus.FAILED, "now", error="rank 1 was killed")
    (row,) = json.loads(called(tmp_path, "list", "--format", "json")[1])
    assert (row["cases"], row["status"]) == ("2/4", "failed")
    _, out, err = called(tmp_path, "show")
    assert "# 2 of 4 cases were not measured" in out.splitlines()
    assert len([line for line in out.splitlines() if not line.startswith("#")]) == 1
    assert err.splitlines() == [
        "warning: 2 cases have samples but no result (2, 3)",
        "the run failed: rank 1 was killed",
    ]
    statuses = [row["status"] for row in csv_rows(called(tmp_path, "show", "--format", "csv")[1])]
    assert statuses == ["good", "good", "not-run", "not-run"]


def test_json_lines_are_events(tmp_path: Path) -> None:
    done = start(
        tmp_path, "run", "all_reduce", "-e", "8", *NULL, "-n", "20", "--seed", "5", "--format", "jsonl"
    )
    events: list[Any] = [decode(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events] == ["header", "case", "progress", "case", "progress", "end"]
    assert events[0]["plan"]["seed"] == 5
    result, progress = events[1]["result"], [events[2], events[4]]
    assert [(item["done"], item["total"]) for item in progress] == [(1, 2), (2, 2)]
    assert progress[1]["eta_s"] == 0
    assert result["samples"] * result["calls_per_sample"] == 20
    assert result["stop"] == "calls"
    assert events[-1]["exit_code"] == 0


def test_one_rank_has_no_bus_bandwidth(tmp_path: Path) -> None:
    words = ("run", "all_reduce", "-e", "8", "--backend", "null", "--world", "solo", "--ranks", "1")
    done = start(tmp_path, *words, "--stats", "n")
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if not line.startswith("#"))
    assert row.split()[5:11] == ["1.00", "0.0%", "36", "0.01", "n/a", "N/A"]


def test_a_dry_run_prints_the_plan_and_starts_nothing(tmp_path: Path, called: Any) -> None:
    words = ("run", "sendrecv", "-b", "8", "-e", "16", *NULL, "--dry-run")
    code, out, err = called(tmp_path, *words)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "# 2 ranks, world nccl, backend null, 4 cases"
    assert sum("-m busbw.rank" in line for line in lines) == 2
    assert lines[3:] == [
        "sendrecv float none 8 B (2 elements) out-of-place",
        "sendrecv float none 16 B (4 elements) out-of-place",
    ]
    assert "BUSBW_TOKEN=... " in lines[1]
    plan = json.loads(called(tmp_path, *words, "--format", "json")[1])
    assert (plan["ranks"], len(plan["plan"]["cases"]), len(plan["commands"])) == (2, 4, 2)
    assert list(tmp_path.iterdir()) == []
    assert "no run 'last'" in called(tmp_path, "show")[2]


def test_a_world_that_cannot_be_measures_nothing(tmp_path: Path, called: Any) -> None:
    words = ("run", "all_reduce", "--backend", "null", "--ranks", "2", "--world", "solo")
    code, out, err = called(tmp_path, *words)
    assert (code, out) == (2, "")
    assert "solo has one rank" in err
    assert list(tmp_path.rglob("run.json")) == []


TASK_OF_ONE = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "0",
    "SLURM_NTASKS": "1",
    "SLURM_STEP_NUM_TASKS": "1",
    "SLURM_NNODES": "1",
    "SLURM_TASKS_PER_NODE": "1",
    **dict.fromkeys(("SLURM_NODELIST", "SLURM_JOB_NODELIST"), "elsewhere"),
}
LEFTOVERS = {"RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "none"}
ONE_CALL = ("run", "all_reduce", "-e", "8", "-n", "1")


@pytest.mark.parametrize("variables", [TASK_OF_ONE, LEFTOVERS], ids=["srun --pty", "leftovers"])
def test_none_starts_ranks_whatever_the_shell_is_part_of(tmp_path: Path, variables: dict[str, str]) -> None:
    words = (*ONE_CALL, "--backend", "mpi", "--ranks", "2", "--format", "csv")
    done = start(tmp_path, *words, BUSBW_LAUNCHER="none", **variables)
    assert done.returncode == 0, done.stderr
    assert [row["ranks"] for row in csv_rows(done.stdout)] == ["2", "2"]


@pytest.mark.parametrize("words", [("--backend", "mpi"), ("--backend", "null", "--ranks", "2")])
def test_a_launcher_of_one_rank_is_refused_with_the_way_to_ignore_it(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = start(tmp_path, *ONE_CALL, *words, **TASK_OF_ONE)
    assert done.returncode in (2, 4)
    assert "BUSBW_LAUNCHER=none" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("backend", "visible", "ranks", "warned"),
    [("nccl", 8, "1", True), ("nccl", 1, "1", False), ("mpi", 8, "1", False), ("nccl", 8, "2", False)],
)
def test_one_rank_beside_idle_gpus_is_warned_about(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    backend: str,
    visible: int,
    ranks: str,
    warned: bool,
) -> None:
    def live(identity: Any, world: str, director: Any, show: Any) -> ExitCode:
        director.plan(identity.size)
        return ExitCode.OK

    # Neither a process nor blocked signals are wanted in that of the tests.
    monkeypatch.setattr("busbw.rank.process.block", lambda: None)
    monkeypatch.setattr("busbw.rank.entry.live", live)
    monkeypatch.setattr("busbw.rank.progress.begin", lambda *_: None)  # nobody watches the tests' own process
    monkeypatch.setattr("busbw.cli.run.choose_backend", lambda *_: backend)
    monkeypatch.setattr("busbw.machine.gpus.gpu_presence", lambda: GpuPresence(visible, "13.0"))
    for name in os.environ:
        if name.startswith(FOREIGN):
            monkeypatch.delenv(name)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", ranks)
    assert main(["run", "all_reduce", "-e", "8"]) == 0
    warning = (
        f"warning: measuring 1 of {visible} visible GPUs, since environment started one rank;"
        " hint: BUSBW_LAUNCHER=none starts one per GPU\n"
    )
    assert capsys.readouterr().err == (warning if warned else "")


def test_two_worlds_that_cannot_meet_are_an_error_of_the_site(tmp_path: Path) -> None:
    words = ("run", "all_reduce", "-e", "8", "--backend", "mpi", "--world", "nccl", "--ranks", "2")
    done = start(tmp_path, *words)
    assert done.returncode == 4
    assert "CPU ranks communicate over MPI" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (('--settings={"maxbytes":8,"backend":"mpi"}', "--deliver=FOLDER"), "leave --mpi none and --world"),
        (("-e", "8", "--backend", "mpi"), "start the ranks with mpirun or srun"),
    ],
)
def test_under_an_engine_the_remedy_is_to_let_it_use_mpi(
    words: tuple[str, ...], hint: str, tmp_path: Path
) -> None:
    line = ("run", "all_reduce", *(word.replace("FOLDER", str(tmp_path)) for word in words))
    done = start(tmp_path, *line, RANK="0", WORLD_SIZE="1")
    assert done.returncode == 4
    assert hint in done.stdout + done.stderr
