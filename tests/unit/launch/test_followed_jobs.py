"""Jobs on an engine whose cluster is this machine: real ranks, front processes that die or are stopped."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from busbw_testing import here_engine
from busbw_testing.environ import clean_environ
from busbw_testing.fronts import (
    FRONT,
    LONG,
    SHORT,
    begun,
    finish,
    front,
    job_is_gone,
    needs_mpich,
    only_run,
    record,
    sizes,
    until,
    wait_for,
    wait_for_run,
)

from busbw.cli.main import main
from busbw.record.folder import JOB_FILE, REQUEST_FILE

pytestmark = needs_mpich


def test_the_front_process_dies_and_another_one_attaches(tmp_path: Path) -> None:
    first = front(tmp_path, *SHORT)
    wait_for_run(tmp_path)
    folder = only_run(tmp_path)
    wait_for(folder / "log" / "stream.jsonl", '"event":"case"')
    first.kill()
    first.communicate()
    code, out, err = finish(front(tmp_path, "attach"))
    assert code == 0, err
    assert sizes(out) == [str(1024 << step) for step in range(7)]  # each row once, from the start
    kept = record(folder)
    assert [result["status"] for result in kept["results"]] == ["good"] * 14
    assert [result["case"] for result in kept["results"]] == list(range(14))


def test_ctrl_c_in_attach_leaves_the_job_alone(tmp_path: Path) -> None:
    code, _, err = finish(front(tmp_path, *LONG, "--detach"))
    assert (code, "busbw attach" in err) == (0, True)
    folder = only_run(tmp_path)
    process = front(tmp_path, "attach")
    wait_for(folder / "log" / "stream.jsonl", '"event":"header"')
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130
    assert "the job goes on" in err
    listed = json.loads(finish(front(tmp_path, "jobs", "--format", "json"))[1])
    assert [row["state"] for row in listed] == ["running"]
    _, job_line = finish(front(tmp_path, "jobs"))[1].splitlines()  # one line in a pipe, however long
    assert job_line.split()[:4] == [folder.name, "here", listed[0]["job"], "running"]
    assert finish(front(tmp_path, "cancel", "last"))[0] == 0
    assert job_is_gone(folder)


def test_a_rank_that_is_killed_is_named(tmp_path: Path) -> None:
    process, folder = begun(tmp_path, *LONG)
    ranks = {}
    for line in (folder / "log" / "stream.jsonl").read_text().splitlines():
        item = json.loads(line)
        if item["event"] == "hello":
            ranks[item["rank"]] = item["pid"]
    os.kill(ranks[1], signal.SIGKILL)
    code, _, err = finish(process)
    assert code == 5
    assert "rank 1" in err
    kept = record(folder)
    assert kept["status"] == "failed"
    assert "rank 1" in kept["error"]
    assert finish(front(tmp_path, "attach"))[0] == 5  # as a script wants it, from the record too


def test_a_job_that_was_cancelled_elsewhere_was_interrupted(tmp_path: Path) -> None:
    process, folder = begun(tmp_path, *LONG)
    assert finish(front(tmp_path, "cancel", "last"))[0] == 0
    code, _, err = finish(process)
    assert (code, "error:" in err, "the job goes on" in err) == (130, False, False)
    assert job_is_gone(folder)
    assert record(folder)["status"] == "interrupted"
    assert finish(front(tmp_path, "attach"))[0] == 130
    code, _, err = finish(front(tmp_path, "cancel", "last"))
    assert (code, "has ended already" in err) == (0, True)


def test_ctrl_c_ends_all_jobs_of_one_command(tmp_path: Path) -> None:
    process = front(tmp_path, *LONG, "-N", "1,2,3")
    until(lambda: len([*tmp_path.glob("*/request/job.json")]) == 3, "third job")
    until(lambda: any(tmp_path.glob("*/log/stream.jsonl")), "word of a rank")
    process.send_signal(signal.SIGINT)
    assert finish(process)[0] == 130
    folders = sorted(tmp_path.glob("2*"))
    assert all(job_is_gone(folder) for folder in folders)
    assert [record(folder)["status"] for folder in folders] == ["interrupted"] * 3


@pytest.mark.slow
def test_a_batch_of_jobs_is_listed_with_what_each_measures(tmp_path: Path) -> None:
    words = ("all_reduce,all_gather", "-b", "64", "-e", "64", "-n", "2", "--split", "0x0", "--on", "hosts")
    code, _, err = finish(front(tmp_path, "run", *words, "-N", "1,2"))
    assert code == 0, err
    ids = re.findall(r"submitted here job (\d+)", err)
    assert f"2 jobs: {ids[0]}, {ids[1]}; `busbw jobs --format csv` lists them" in err
    code, out, _ = finish(front(tmp_path, "exec", "--on", "hosts", "--", "echo", "a b"))
    assert code == 0
    code, out, err = finish(front(tmp_path, "jobs", "--format", "csv"))
    assert code == 0, err
    rows = list(csv.DictReader(io.StringIO(out)))
    assert {row["JobID"] for row in rows if row["Operations"] == "all_reduce,all_gather"} == set(ids)
    for row in rows:
        assert (row["Nodes"], row["Ranks"], row["Engine"], row["State"]) == ("1", "2", "here", "ended")
        assert row["SubmissionTime"].startswith("20")
    assert sorted(row["SplitMask"] for row in rows) == ["", "0x0", "0x0"]
    assert [row["Operations"] for row in rows].count("echo 'a b'") == 1
    damaged = next(row["Run"] for row in rows if row["JobID"] == ids[0])
    (tmp_path / damaged / JOB_FILE).write_text("")  # a full disk
    (tmp_path / damaged / REQUEST_FILE).write_text("[]")
    for form in ("table", "json", "csv"):
        code, out, err = finish(front(tmp_path, "jobs", "--format", form))
        assert code == 0, err
        assert all(text in out for text in (damaged, ids[1])), form


TICKING = ("exec", "--on", "hosts", "--", "sh", "-c", "while sleep 0.05; do echo tick; done")


def read_a_line_and_leave(process: subprocess.Popen[str]) -> int:
    """As `busbw ... | head -1` does."""
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stderr:
        with process.stdout:
            assert process.stdout.readline() == "tick\n"
        return process.wait(timeout=120)


def test_a_reader_that_leaves_a_run_in_the_foreground_cancels_it(tmp_path: Path) -> None:
    assert read_a_line_and_leave(front(tmp_path, *TICKING)) == 141
    assert job_is_gone(only_run(tmp_path))
    assert finish(front(tmp_path, "attach"))[0] == 130


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "all_reduce", "--on", "hosts", "-N", "²"), "--nodes ² is not a number"),
        (("exec", "--on", "hosts"), "no command given"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_starts(
    words: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path))
    assert main(list(words)) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_jobs_before_a_refused_one_are_cancelled_and_named(tmp_path: Path) -> None:
    code, _, err = finish(front(tmp_path, *LONG, "-N", "1,2", "--detach", BUSBW_TEST_REFUSE_SECOND="1"))
    assert code == 4
    number = re.findall(r"submitted here job (\d+)", err)[0]
    assert f"error: the queue takes one job of a user; cancelled job {number}, submitted before" in err
    assert "hint: ask for less" in err
    (folder,) = [path.parents[1] for path in tmp_path.glob("*/request/job.json")]
    assert job_is_gone(folder)
    assert record(folder)["status"] == "interrupted"


def test_clean_brings_the_record_of_an_ended_job_home(tmp_path: Path) -> None:
    words = ("run", "all_reduce", "-b", "1K", "-e", "2K", "-n", "20", "--on", "hosts", "--detach")
    assert finish(front(tmp_path, *words, BUSBW_TEST_UNSHARED="1"))[0] == 0
    folder = only_run(tmp_path)
    wait_for(folder / "log" / "job.out", "job ended")
    assert job_is_gone(folder)  # its last line is not its end
    code, _, err = finish(front(tmp_path, "clean"))
    assert code == 0
    assert f"{folder.name}: fetched its record (complete)" in err
    assert f"{folder.name}: clean" in err
    kept = record(folder)
    assert [result["status"] for result in kept["results"]] == ["good"] * 4


def test_ctrl_c_while_a_detached_job_is_submitted_says_that_it_was_cancelled(tmp_path: Path) -> None:
    process = front(tmp_path, *LONG, "-N", "1,2", "--detach", BUSBW_TEST_SLOW_SUBMIT="2")
    until(lambda: any(tmp_path.glob("*/log/job.out")), "job")
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    number = re.findall(r"submitted here job (\d+)", err)[0]
    assert (code, f"interrupted: cancelled here job {number}" in err) == (130, True)
    assert job_is_gone(only_run(tmp_path))  # the second one was not submitted any more


def test_a_terminal_that_is_closed_ends_the_job_and_closes_the_record(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", sys.executable, "-c", FRONT, *LONG],
        env=clean_environ(BUSBW_HOME=str(tmp_path), PYTHONPATH=str(Path(here_engine.__file__).parents[1])),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    wait_for_run(tmp_path)
    folder = only_run(tmp_path)
    wait_for(folder / "log" / "stream.jsonl", '"event":"header"')
    os.close(ours)  # the kernel sends SIGHUP, and there is nothing to write to any more
    assert process.wait(60) == 130
    assert job_is_gone(folder)
    assert record(folder)["status"] == "interrupted"
