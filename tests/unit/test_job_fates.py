"""Jobs that nobody follows: no result is lost and no job runs on unnoticed."""

from __future__ import annotations

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
from busbw_testing import here_engine
from busbw_testing.environ import clean_environ
from busbw_testing.fronts import (
    FRONT,
    LONG,
    finish,
    front,
    job_is_gone,
    only_run,
    wait_for,
    wait_for_run,
)

from busbw import job_judge

MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="the bundled mpich is not installed here")


def test_jobs_before_a_refused_one_are_cancelled_and_named(tmp_path: Path) -> None:
    code, _, err = finish(front(tmp_path, *LONG, "-N", "1,2", "--detach", BUSBW_TEST_REFUSE_SECOND="1"))
    assert code == 4
    number = re.findall(r"submitted here job (\d+)", err)[0]
    assert f"error: the queue takes one job of a user; cancelled job {number}, submitted before" in err
    assert "hint: ask for less" in err
    (folder,) = [path.parents[1] for path in tmp_path.glob("*/request/job.json")]
    assert job_is_gone(folder)
    assert json.loads((folder / "run.json").read_text())["status"] == "interrupted"


def test_clean_brings_the_record_of_an_ended_job_home(tmp_path: Path) -> None:
    words = ("run", "all_reduce", "-b", "1K", "-e", "2K", "-n", "20", "--on", "hosts", "--detach")
    assert finish(front(tmp_path, *words, BUSBW_TEST_UNSHARED="1"))[0] == 0
    folder = only_run(tmp_path)
    wait_for(folder / "log" / "job.out", "job ended")
    process = Path("/proc") / json.loads((folder / "request" / "job.json").read_text())["id"]
    while process.exists():  # its last line is not its end; the test's time limit is
        time.sleep(0.02)
    code, _, err = finish(front(tmp_path, "clean"))
    assert code == 0
    assert f"{folder.name}: brought its record home (complete)" in err
    assert f"{folder.name}: clean" in err
    record = json.loads((folder / "run.json").read_text())
    assert [result["status"] for result in record["results"]] == ["good"] * 4


def test_ctrl_c_while_a_detached_job_is_submitted_says_that_it_was_cancelled(tmp_path: Path) -> None:
    process = front(tmp_path, *LONG, "--detach", BUSBW_TEST_SLOW_SUBMIT="2")
    for _ in range(1500):
        if list(tmp_path.glob("*/log/job.out")):
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    number = re.findall(r"submitted here job (\d+)", err)[0]
    assert (code, f"interrupted: cancelled here job {number}" in err) == (130, True)
    assert job_is_gone(only_run(tmp_path))


def test_attach_says_what_became_of_a_cancelled_job(tmp_path: Path) -> None:
    assert finish(front(tmp_path, *LONG, "--detach"))[0] == 0
    assert finish(front(tmp_path, "cancel"))[0] == 0
    for _ in range(2):  # as it ends, and from its record
        code, _, err = finish(front(tmp_path, "attach"))
        assert (code, "was cancelled" in err) == (130, True)


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
    assert json.loads((folder / "run.json").read_text())["status"] == "interrupted"


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("/usr/bin/python3: No module named busbw", "--bring"),
        ('exec: "python3": executable file not found in $PATH', "--python"),
        ("sh: 1: python3: not found", "--python"),
    ],
)
def test_what_an_image_lacks_has_a_remedy(line: str, word: str) -> None:
    assert word in job_judge.with_remedy({"event": "error", "hint": "look"}, ["other", line])["hint"]
    assert job_judge.with_remedy({"event": "error", "hint": "look"}, ["other"])["hint"] == "look"


def test_a_known_crash_of_open_mpi_has_a_remedy() -> None:
    """As Open MPI 5.0.11 prints it; elsewhere than in MPI_Init it is not known."""
    lines = [
        "[h1:00393] [ 1] /lib/libmpi.so.40(mca_pml_ob1_recv_frag_callback_match+0x95)[0x7f59c2a78f25]",
        "[h1:00393] [ 9] /lib/libmpi.so.40(ompi_mpi_init+0x425)[0x7f59c2891215]",
    ]
    error = {"event": "error", "hint": "look"}
    assert "OMPI_MCA_pmix_base_async_modex=1" in job_judge.with_remedy(error, lines)["hint"]
    assert job_judge.with_remedy(error, lines[:1])["hint"] == "look"
