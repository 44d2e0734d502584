from __future__ import annotations

from collections.abc import Callable

Script = Callable[..., str]


def test_hunts_among_switches_are_simulated(script: Script) -> None:
    unlike, slow = script("isolate/classes.py", "--runs", "1").split("\n\n")[1::2]
    assert len(unlike.splitlines()) == 2 + 16
    rows = [row.split(" | ") for row in slow.splitlines()[2:]]
    assert len(rows) == 8
    for _, _, named, others, undecided, healthy, *_ in rows:
        assert (named, others, healthy) == ("0 of 1" if undecided == "1" else "1 of 1", "0", "0")
    assert [row[2] for row in rows[:5]] == ["1 of 1"] * 5  # switches of four hosts or more


def test_hunts_for_a_part_that_is_slow_later_are_simulated(script: Script) -> None:
    rows = [row.split(" | ") for row in script("isolate/slow_later.py", "--hunts", "1").splitlines()[2:]]
    assert len(rows) == 15
    for _, doubted, named, path, others, undecided, healthy, _ in rows:
        assert (path, others) == ("0", "0")
        assert int(named) + int(undecided) + int(healthy) == 1
        assert healthy == "0" or doubted == "0"
