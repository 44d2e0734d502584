"""The words by which a rank becomes nsys of itself, and runs that do."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest
from busbw_testing.runs import NULL, start, start_process

from busbw.errors import UsageError
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Size
from busbw.plan.make import make_plan
from busbw.plan.request import rank_words
from busbw.rank.profile import option, profile_words, report_name
from busbw.record.folder import run_folders
from busbw.record.read import read_record

OF_TORCHRUN = {
    "RANK": "0",
    "WORLD_SIZE": "1",
    "LOCAL_RANK": "0",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "1",
}
# What nsys does, less the profile: it runs the words behind its own, and leaves a report.
NSYS = f"""#!{sys.executable}
import json, os, subprocess, sys
words = sys.argv[1:]
output = words[words.index("--output") + 1]
command = words[words.index("--output") + 2:]
os.environ["NSYS_PROFILING_SESSION_ID"] = "1"
# As nsys does (2022.4.2): MPICH's ranks talk to their launcher over an inherited descriptor.
code = subprocess.run(command, close_fds=False).returncode
open(output + ".nsys-rep", "w").write(json.dumps(words))
print("Generated:", output, flush=True)
sys.exit(code)
"""


def test_the_words() -> None:
    argv = ("python", "-m", "busbw.rank")
    output = "/runs/r/evidence/nsys/" + report_name(3, "gpu7")
    assert " ".join(profile_words("/opt/nsys", output, argv)) == (
        "/opt/nsys profile --sample none --cpuctxsw none --trace cuda,nvtx --export sqlite"
        " --force-overwrite true --output /runs/r/evidence/nsys/rank-00003-gpu7 python -m busbw.rank"
    )
    assert " ".join(profile_words("nsys", "r", argv, "--delay 2 --nic-metrics 'l f'", samples_efa=True)) == (
        "nsys profile --sample none --cpuctxsw none --trace cuda,nvtx --export sqlite --enable efa_metrics"
        " --delay 2 --nic-metrics l f --force-overwrite true --output r python -m busbw.rank"
    )


def test_a_flag_among_words_that_nobody_parsed() -> None:
    words = ["run", "--deliver=/a b", "--profile-args", "--delay 2", "-n", "4"]
    assert option(words, "--deliver") == "/a b"
    assert option(words, "--profile-args") == "--delay 2"
    assert option(words, "--profile") == ""


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (RunSettings(profile="nsys", expect=("good",)), "--expect needs trustworthy times"),
        (RunSettings(profile="nsys", launches=3), "--launches needs trustworthy times"),
        (RunSettings(profile_args="--delay 2"), "--profile-args needs --profile"),
    ],
)
def test_nothing_that_trusts_the_times(settings: RunSettings, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make_plan(("all_reduce",), settings, "null", 2)


@pytest.fixture
def with_nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tool = tmp_path / "bin" / "nsys"
    tool.parent.mkdir()
    tool.write_text(NSYS)
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    return tmp_path / "home"


@pytest.mark.slow
def test_every_rank_runs_under_it_and_every_row_says_so(with_nsys: Path) -> None:
    words = ("run", "all_reduce", "-b", "1K", "-e", "2K", "-n", "8", "--profile", "nsys", *NULL)
    done = start(with_nsys, *words)
    assert done.returncode == 0, done.stderr
    (folder,) = run_folders(with_nsys)
    record = read_record(folder)
    assert all("profiled" in result.conditions for result in record.results)
    assert "profiled: a profiler was attached" in done.stdout
    ranks = len(record.world.ranks) if record.world is not None else 0
    reports = sorted(path.name for path in (folder / "evidence" / "nsys").iterdir())
    assert [name[: len("rank-00000-")] for name in reports] == [f"rank-{rank:05d}-" for rank in range(ranks)]
    refused = start(with_nsys, "expect", folder.name, "--save", "mine")
    assert refused.returncode == 2
    assert "timed under a profiler" in refused.stderr
    refused = start(with_nsys, "compare", folder.name, folder.name)
    assert refused.returncode == 2
    assert "timed under a profiler, so it cannot be judged, compared" in refused.stderr
    told = start(with_nsys, "diagnose", folder.name, "--all")
    assert "no time of this run is held against a reference" in told.stdout


def test_without_nsys_every_rank_would_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    done = start(tmp_path, "run", "all_reduce", "-b", "1K", "-n", "4", "--profile", "nsys", *NULL)
    assert done.returncode == 4
    assert "there is no nsys on PATH" in done.stderr
    assert "hint: load Nsight Systems' module" in done.stderr
    assert "Traceback" not in done.stderr


def test_dry_run_shows_what_a_rank_becomes(tmp_path: Path) -> None:
    done = start(
        tmp_path, "run", "all_reduce", "--profile", "nsys", "--profile-args=--delay 1", "--dry-run", *NULL
    )
    assert "# each rank: nsys profile --sample none --cpuctxsw none --trace cuda,nvtx" in done.stdout
    assert "--delay 1 --force-overwrite true --output evidence/nsys/rank-RANK-HOST" in done.stdout
    assert "BUSBW_RANK_PROFILER=nsys" in done.stdout


def test_a_rank_of_an_engine_wraps_itself(with_nsys: Path, tmp_path: Path) -> None:
    folder = tmp_path / "delivered"
    settings = RunSettings(
        minbytes=Size("1K"), iters=4, backend="null", world="solo", profile="nsys", profile_args="--delay 2"
    )
    own = rank_words(("all_reduce",), settings, folder)
    done = start_process(with_nsys, *own, **OF_TORCHRUN)  # which becomes the profiler
    assert done.returncode == 0, done.stderr
    assert '"status":"complete"' in done.stdout
    (report,) = (folder / "evidence" / "nsys").iterdir()
    words_of_nsys = json.loads(report.read_text())
    assert words_of_nsys[words_of_nsys.index("--delay") + 1] == "2"
    assert words_of_nsys[-len(own) :] == list(own)


def test_ranks_of_somebodys_launcher_are_not_wrapped(tmp_path: Path) -> None:
    done = start(tmp_path, "run", "all_reduce", "--profile", "nsys", "--backend", "null", **OF_TORCHRUN)
    assert done.returncode == 2
    assert "cannot wrap the ranks that" in done.stderr
    assert "nsys profile --export sqlite" in done.stderr
