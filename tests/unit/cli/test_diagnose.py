"""busbw diagnose as a user starts it: text, JSON with stable ids, exit codes, published logs."""

from __future__ import annotations

import json
from pathlib import Path

from busbw_testing.compared import nccl_tests_log, write
from busbw_testing.runs import NULL, start

QUESTIONS = ("expected", "links", "algorithm", "variance", "ranks")


def test_a_run_has_an_answer_to_every_question(tmp_path: Path) -> None:
    assert start(tmp_path, "run", "all_reduce", *NULL, "-b", "8", "-e", "1M", "-f", "4").returncode == 0
    done = start(tmp_path, "diagnose")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [word for line in lines for word in QUESTIONS if line.startswith(f"{word} ")] == list(QUESTIONS)
    assert "ranks      YES             Is every rank the same?" in lines
    assert max(map(len, lines)) <= 110


def test_json_is_for_programs(tmp_path: Path) -> None:
    start(tmp_path, "run", "all_reduce", *NULL, "-b", "8", "-e", "1M", "-f", "4")
    told = json.loads(start(tmp_path, "diagnose", "last", "--format", "json").stdout)
    assert list(told["answers"]) == list(QUESTIONS)
    assert told["exit_code"] == 0
    found = {each["check"]: each for each in told["conclusions"]}
    assert found["variance.precision"]["answer"] == "yes"
    assert {"name", "value", "unit", "source"} == set(found["variance.precision"]["facts"][0])


def test_a_log_gets_what_its_data_allow(tmp_path: Path) -> None:
    log = nccl_tests_log({2**power: 10.0 for power in range(10, 20)}, 8)
    tuned = "node0:1:1 [0] NCCL INFO AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}\n"
    forced = "node0:1:1 [0] NCCL INFO NCCL_ALGO set by environment to Ring.\n"
    path = write(tmp_path / "a.log", tuned + forced + log)
    done = start(tmp_path, "diagnose", str(path))
    assert done.returncode == 1  # a warning: the algorithm was forced
    assert "AllReduce: RING LL at 1 KiB" in done.stdout
    assert "the library did not choose freely: NCCL_ALGO=Ring" in done.stdout
    assert done.stdout.count("NOT OBSERVABLE") == 4
    bare = write(tmp_path / "b.log", log)
    assert start(tmp_path, "diagnose", str(bare)).returncode == 3


def test_what_is_not_there(tmp_path: Path) -> None:
    done = start(tmp_path, "diagnose", "nothing")
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
