from __future__ import annotations

from collections.abc import Callable

Script = Callable[..., str]


def test_hunts_among_switches_are_simulated(script: Script) -> None:
    unlike, slow = script("isolate/classes.py", "--runs", "1").split("\n\n")[1::2]
    assert len(unlike.splitlines()) == 2 + 16
    for row in slow.splitlines()[2:]:
        assert "1 of 1 | 0 | 0" in row
