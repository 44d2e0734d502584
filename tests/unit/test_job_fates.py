"""Jobs that nobody follows: no result is lost and no job runs on unnoticed."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from busbw_testing.fronts import LONG, SHORT, finish, front, job_is_gone, only_run, wait_for

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
    assert finish(front(tmp_path, *SHORT, "--detach", BUSBW_TEST_UNSHARED="1"))[0] == 0
    folder = only_run(tmp_path)
    wait_for(folder / "log" / "job.out", "job ended")
    code, _, err = finish(front(tmp_path, "clean"))
    assert code == 0
    assert f"{folder.name}: brought its record home (complete)" in err
    assert f"{folder.name}: clean" in err
    record = json.loads((folder / "run.json").read_text())
    assert [result["status"] for result in record["results"]] == ["good"] * 14
