"""Several processes that follow one run: one writes the folder, the others show what it hears."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from busbw_testing.fronts import LONG, SHORT, finish, front, job_is_gone, only_run, wait_for, wait_for_run

MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="the bundled mpich is not installed here")

SIZES = [str(1024 << step) for step in range(7)]


def sizes(out: str) -> list[str]:
    return [line.split()[0] for line in out.splitlines() if line[:1] == " " and line.split()[0].isdigit()]


def begun(home: Path, *words: str, **variables: str) -> tuple[subprocess.Popen[str], Path]:
    """A front process, once it has heard the ranks."""
    first = front(home, *words, **variables)
    wait_for_run(home)
    folder = only_run(home)
    wait_for(folder / "log" / "stream.jsonl", '"event":"header"')
    return first, folder


def assert_whole(folder: Path) -> None:
    record = json.loads((folder / "run.json").read_text())
    assert record["status"] == "complete"
    assert [result["case"] for result in record["results"]] == list(range(14))
    assert [result["status"] for result in record["results"]] == ["good"] * 14
    assert not list(folder.glob("samples/*.new"))
    assert (folder / "samples" / "samples.bin").is_file()


@pytest.mark.parametrize("unshared", ["", "1"])
def test_a_second_follower_shows_the_table_and_writes_nothing(tmp_path: Path, unshared: str) -> None:
    first, folder = begun(tmp_path, *SHORT, BUSBW_TEST_UNSHARED=unshared)
    others = [front(tmp_path, "attach") for _ in range(2)]
    ends = [finish(process) for process in (first, *others)]
    for code, out, err in ends:
        assert code == 0, err
        assert sizes(out) == SIZES
        assert "Traceback" not in err
    assert all(f"process {first.pid} on " in err for _, _, err in ends[1:])
    assert_whole(folder)


@pytest.mark.slow
@pytest.mark.parametrize("unshared", ["", "1"])
def test_a_second_follower_goes_on_when_the_first_one_dies(tmp_path: Path, unshared: str) -> None:
    first, folder = begun(tmp_path, *SHORT, BUSBW_TEST_UNSHARED=unshared)
    second = front(tmp_path, "attach")
    assert second.stderr is not None
    said = second.stderr.readline()
    assert f"process {first.pid} on " in said
    first.kill()
    first.communicate()
    code, out, err = finish(second)
    assert code == 0, err
    assert "following in its place" in err
    assert sizes(out) == SIZES  # each row once
    assert_whole(folder)


def test_ctrl_c_in_a_second_follower_leaves_the_first_one_and_the_job(tmp_path: Path) -> None:
    first, folder = begun(tmp_path, *LONG)
    second = front(tmp_path, "attach")
    assert second.stderr is not None
    second.stderr.readline()
    second.send_signal(signal.SIGINT)
    code, _, err = finish(second)
    assert (code, "the job goes on" in err) == (130, True)
    time.sleep(0.3)
    assert first.poll() is None
    first.send_signal(signal.SIGINT)
    assert finish(first)[0] == 130
    assert job_is_gone(folder)


@pytest.mark.slow
def test_ctrl_c_in_the_front_ends_a_job_that_another_process_follows(tmp_path: Path) -> None:
    first = front(tmp_path, *LONG, "-N", "1,2")
    for _ in range(1500):
        if len(list(tmp_path.glob("*/request/job.json"))) == 2:
            break
        time.sleep(0.02)
    jobs = sorted(tmp_path.glob("*/request/job.json"), key=lambda path: path.stat().st_mtime_ns)
    second_folder = jobs[-1].parents[1]
    second = front(tmp_path, "attach", second_folder.name)
    wait_for(second_folder / "log" / "stream.jsonl", '"event":"header"')
    first.send_signal(signal.SIGINT)
    assert finish(first)[0] == 130
    assert finish(second)[0] == 130
    assert job_is_gone(second_folder)
    assert json.loads((second_folder / "run.json").read_text())["status"] == "interrupted"
