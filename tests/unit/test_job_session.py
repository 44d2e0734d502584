"""Jobs on an engine whose cluster is this machine: real ranks, front processes that die or are stopped."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from busbw_testing.fronts import LONG, finish, front, job_is_gone, only_run, wait_for, wait_for_run

from busbw.record.folder import JOB_FILE, REQUEST_FILE

MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="the bundled mpich is not installed here")


def test_a_run_on_an_engine_shows_its_table_and_brings_its_record(tmp_path: Path) -> None:
    code, out, err = finish(
        front(tmp_path, "run", "all_reduce", "-b", "1K", "-e", "2K", "-n", "20", "--on", "hosts")
    )
    assert code == 0, err
    rows = [line.split() for line in out.splitlines() if line[:1] == " "]
    assert [row[0] for row in rows] == ["1024", "2048"]
    record = json.loads((only_run(tmp_path) / "run.json").read_text())
    assert record["status"] == "complete"
    assert record["argv"][-2:] == ["--on", "hosts"]
    assert "--on" in record["argv"]
    assert "submitted here job" in err


def test_the_front_process_dies_and_another_one_attaches(tmp_path: Path) -> None:
    first = front(tmp_path, *LONG[:-4], "-n", "3000", "--on", "hosts")
    wait_for_run(tmp_path)
    folder = only_run(tmp_path)
    wait_for(folder / "log" / "stream.jsonl", '"event":"case"')
    first.kill()
    first.communicate()
    code, out, err = finish(front(tmp_path, "attach"))
    assert code == 0, err
    rows = [line.split()[0] for line in out.splitlines() if line[:1] == " " and line.split()[0].isdigit()]
    assert rows == [str(1024 << step) for step in range(7)]  # each row once, from the start
    record = json.loads((folder / "run.json").read_text())
    assert [result["status"] for result in record["results"]] == ["good"] * 14
    assert [result["case"] for result in record["results"]] == list(range(14))


def test_ctrl_c_cancels_the_job_and_keeps_what_was_measured(tmp_path: Path) -> None:
    process = front(tmp_path, *LONG)
    wait_for_run(tmp_path)
    folder = only_run(tmp_path)
    wait_for(folder / "log" / "stream.jsonl", '"event":"header"')
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 130
    assert "cancelling the job" in err
    assert job_is_gone(folder)
    assert json.loads((folder / "run.json").read_text())["status"] == "interrupted"


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
    assert finish(front(tmp_path, "cancel"))[0] == 0
    assert job_is_gone(folder)


def test_a_rank_that_is_killed_is_named(tmp_path: Path) -> None:
    process = front(tmp_path, *LONG)
    wait_for_run(tmp_path)
    folder = only_run(tmp_path)
    wait_for(folder / "log" / "stream.jsonl", '"event":"header"')
    ranks = {}
    for line in (folder / "log" / "stream.jsonl").read_text().splitlines():
        item = json.loads(line)
        if item["event"] == "hello":
            ranks[item["rank"]] = item["pid"]
    os.kill(ranks[1], signal.SIGKILL)
    code, _, err = finish(process)
    assert code == 5
    assert "rank 1" in err
    record = json.loads((folder / "run.json").read_text())
    assert record["status"] == "failed"
    assert "rank 1" in record["error"]
    assert finish(front(tmp_path, "attach"))[0] == 5  # as a script wants it, from the record too


def test_a_job_that_was_cancelled_elsewhere_was_interrupted(tmp_path: Path) -> None:
    process = front(tmp_path, *LONG)
    wait_for_run(tmp_path)
    folder = only_run(tmp_path)
    wait_for(folder / "log" / "stream.jsonl", '"event":"header"')
    assert finish(front(tmp_path, "cancel"))[0] == 0
    code, _, err = finish(process)
    assert (code, "error:" in err, "the job goes on" in err) == (130, False, False)
    assert job_is_gone(folder)
    assert json.loads((folder / "run.json").read_text())["status"] == "interrupted"
    assert finish(front(tmp_path, "attach"))[0] == 130
    code, _, err = finish(front(tmp_path, "cancel"))
    assert (code, "has ended already" in err) == (0, True)


def test_a_cancelled_job_does_not_go_on_when_it_is_attached_to(tmp_path: Path) -> None:
    assert finish(front(tmp_path, *LONG, "--detach"))[0] == 0
    folder = only_run(tmp_path)
    assert finish(front(tmp_path, "cancel"))[0] == 0
    code, _, err = finish(front(tmp_path, "attach"))
    assert (code, "the job goes on" in err) == (130, False)
    assert json.loads((folder / "run.json").read_text())["status"] == "interrupted"


def test_ctrl_c_ends_all_jobs_of_one_command(tmp_path: Path) -> None:
    process = front(tmp_path, *LONG, "-N", "1,2,3")
    for _ in range(1500):
        if list(tmp_path.glob("*/log/stream.jsonl")) and len(list(tmp_path.glob("*/request/job.json"))) == 3:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert finish(process)[0] == 130
    folders = sorted(tmp_path.iterdir())
    assert len(folders) == 3
    assert all(job_is_gone(folder) for folder in folders)
    assert [json.loads((folder / "run.json").read_text())["status"] for folder in folders] == [
        "interrupted"
    ] * 3


def test_ctrl_c_while_submitting_ends_the_job_once_its_number_is_known(tmp_path: Path) -> None:
    process = front(tmp_path, *LONG, "-N", "1,2", BUSBW_TEST_SLOW_SUBMIT="2")
    for _ in range(1500):
        if list(tmp_path.glob("*/log/job.out")):
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert finish(process)[0] == 130
    folder = only_run(tmp_path)  # the second one was not submitted any more
    assert job_is_gone(folder)


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


def test_what_the_engine_did_not_cancel_goes_on(tmp_path: Path) -> None:
    home, silent = tmp_path / "home", tmp_path / "silent"
    silent.touch()
    process = front(home, *LONG, BUSBW_TEST_SILENT=str(silent))
    wait_for_run(home)
    folder = only_run(home)
    wait_for(folder / "log" / "stream.jsonl", '"event":"header"')
    process.send_signal(signal.SIGINT)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 4, err
    assert "not cancelled yet: the cluster does not answer" in err
    assert "was not cancelled and may go on" in err
    assert json.loads((folder / "run.json").read_text())["status"] == "running"
    code, _, err = finish(front(home, "cancel", BUSBW_TEST_SILENT=str(silent)))
    assert (code, "may go on" in err) == (4, True)
    silent.unlink()
    assert finish(front(home, "cancel"))[0] == 0
    assert finish(front(home, "attach"))[0] == 130
    assert job_is_gone(folder)


def test_an_engine_that_was_silent_is_asked_to_cancel_again(tmp_path: Path) -> None:
    home, silent = tmp_path / "home", tmp_path / "silent"
    silent.touch()
    process = front(home, *LONG, BUSBW_TEST_SILENT=str(silent))
    wait_for_run(home)
    wait_for(only_run(home) / "log" / "stream.jsonl", '"event":"header"')
    process.send_signal(signal.SIGINT)
    time.sleep(1.0)
    silent.unlink()
    code, _, err = finish(process)
    assert (code, "may go on" in err) == (130, False), err
    assert json.loads((only_run(home) / "run.json").read_text())["status"] == "interrupted"


@pytest.mark.parametrize("own", [0, 3])
def test_a_detached_command_ends_as_in_the_foreground(tmp_path: Path, own: int) -> None:
    words = ("exec", "--on", "hosts", "--detach", "--", "sh", "-c", f"echo it says; exit {own}")
    assert finish(front(tmp_path, *words))[0] == 0
    for _ in range(2):  # followed to its end, and from what was kept
        code, out, err = finish(front(tmp_path, "attach"))
        assert code == own, err
        assert out.splitlines()[:2] == ["it says"] * 2
    status = json.loads((only_run(tmp_path) / "run.json").read_text())["status"]
    assert status == ("failed" if own else "complete")


TICKING = ("exec", "--on", "hosts", "--", "sh", "-c", "while sleep 0.05; do echo tick; done")


def read_a_line_and_leave(process: subprocess.Popen[str]) -> int:
    """As `busbw ... | head -1` does."""
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stderr:
        with process.stdout:
            assert process.stdout.readline() == "tick\n"
        return process.wait(timeout=120)


def test_a_reader_of_attach_that_leaves_leaves_the_job_alone(tmp_path: Path) -> None:
    words = (*TICKING[:3], "--detach", *TICKING[3:])
    assert finish(front(tmp_path, *words))[0] == 0
    assert read_a_line_and_leave(front(tmp_path, "attach")) == 141
    (listed,) = json.loads(finish(front(tmp_path, "jobs", "--format", "json"))[1])
    assert listed["state"] == "running"
    assert finish(front(tmp_path, "cancel"))[0] == 0
    assert job_is_gone(only_run(tmp_path))


def test_a_reader_that_leaves_a_run_in_the_foreground_cancels_it(tmp_path: Path) -> None:
    assert read_a_line_and_leave(front(tmp_path, *TICKING)) == 141
    assert job_is_gone(only_run(tmp_path))
    assert finish(front(tmp_path, "attach"))[0] == 130


@pytest.mark.parametrize("own", [0, 3])
def test_exec_shows_the_output_and_gives_the_command_s_code(tmp_path: Path, own: int) -> None:
    script = f'echo "it says $A"; exit {own}'
    code, out, _ = finish(
        front(tmp_path, "exec", "--on", "hosts", "--env", "A=b $(c)", "--", "sh", "-c", script)
    )
    assert code == own
    assert out.splitlines()[:2] == ["it says b $(c)"] * 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "all_reduce", "--hosts", "a"), "--hosts needs an engine"),
        (("run", "all_reduce", "--on", "hosts", "-N", "x"), "--nodes x is no number"),
        (("run", "all_reduce", "--on", "hosts", "-N", "²"), "--nodes ² is no number"),
        (("run", "all_reduce", "--on", "hosts", "--env", "x"), "is not K=V"),
        (("run", "nonsense", "--on", "hosts"), "nonsense"),
        (("exec", "--on", "hosts"), "no command given"),
        (("attach", "nothing"), "no run 'nothing'"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_starts(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    code, _, err = finish(front(tmp_path, *words))
    assert code == 2
    assert message in err
    assert "hint:" in err
    assert not list(tmp_path.iterdir())
