from __future__ import annotations

import re
from collections.abc import Callable

import pytest

Script = Callable[..., str]


def test_null_loop_shows_every_k(script: Script) -> None:
    rows = script("overhead/null_loop.py", "--samples", "20", "--looks", "3").splitlines()[2:]
    assert [row.split()[0] for row in rows] == ["1", "10", "100", "1000"]
    assert all(float(row.split()[1]) > 0 for row in rows)


def test_progress_cost_compares_with_and_without(script: Script) -> None:
    text = script("overhead/progress_cost.py", "--samples", "20", "--rounds", "6")
    rows = text.splitlines()[2:6]
    assert [row.split()[0] for row in rows] == ["1", "10", "100", "1000"]
    assert len(re.findall(r"^(?:with it|itself) +[+-]\d+\.\d\d %", text, re.MULTILINE)) == 2


def test_check_cost_shows_each_step(script: Script) -> None:
    text = script("overhead/check_cost.py", "--size", "1M", "--repeats", "2")
    steps = [line for line in text.splitlines() if line.startswith(" ")][1:]
    assert [line.rsplit(maxsplit=4)[0].strip() for line in steps] == [
        "poison and fill",
        "all_reduce",
        "compare",
    ]
    assert all(float(line.split()[-1]) > 0 for line in steps)


@pytest.mark.slow
@pytest.mark.usefixtures("mpicc")
def test_start_waits_for_the_first_row_of_each_arm(script: Script) -> None:
    rows = script("overhead/start.py", "--rounds", "1").splitlines()[2:]
    names = [
        "C program that meets once",
        "mpi4py and numpy that meet once",
        "busbw run",
        "busbw run, -n 100 -w 5",
    ]
    shown = [re.match(r"\s*(.*?)\s+\d+\.\d{3} s", row) for row in rows]
    assert [match and match[1] for match in shown] == names


EVENTS = ["header", "pass", "pass", "case", "case", "memory", "end", "process ended"]


@pytest.mark.slow
def test_stages_name_the_events_in_order(script: Script) -> None:
    lines = script("overhead/start.py", "--stages").splitlines()
    assert [line.split(maxsplit=2)[2] for line in lines] == EVENTS
    seconds = [float(line.split()[0]) for line in lines]
    assert seconds == sorted(seconds)
