"""Several processes that follow one run: one writes the folder, the others show what it hears."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from busbw_testing.fronts import (
    LONG,
    SHORT,
    begun,
    finish,
    front,
    job_is_gone,
    needs_mpich,
    record,
    sizes,
    until,
    wait_for,
)

pytestmark = needs_mpich

SIZES = [str(1024 << step) for step in range(7)]


def assert_whole(folder: Path) -> None:
    kept = record(folder)
    assert (kept["status"], kept["argv"][-2:]) == ("complete", ["--on", "hosts"])
    assert [(each["case"], each["status"]) for each in kept["results"]] == [(at, "good") for at in range(14)]
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
    assert "submitted here job" in ends[0][2]
    assert all(f"process {first.pid} on " in err for _, _, err in ends[1:])
    assert_whole(folder)


@pytest.mark.slow
def test_a_second_follower_goes_on_when_the_first_one_dies(tmp_path: Path) -> None:
    first, folder = begun(tmp_path, *SHORT, BUSBW_TEST_UNSHARED="1")
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
    until(lambda: len([*tmp_path.glob("*/request/job.json")]) == 2, "second job")
    jobs = sorted(tmp_path.glob("*/request/job.json"), key=lambda path: path.stat().st_mtime_ns)
    second_folder = jobs[-1].parents[1]
    second = front(tmp_path, "attach", second_folder.name)
    wait_for(second_folder / "log" / "stream.jsonl", '"event":"header"')
    first.send_signal(signal.SIGINT)
    assert finish(first)[0] == 130
    assert finish(second)[0] == 130
    assert job_is_gone(second_folder)
    assert record(second_folder)["status"] == "interrupted"
