from __future__ import annotations

from collections.abc import Callable

Script = Callable[..., str]


def test_preflight_of_many_ranks_is_timed(script: Script) -> None:
    text = script("preflight/many.py", "--simulated", "2x4,5x1", "--real", "3", "--rounds", "2")
    lines = text.splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith(("| 2 hosts x 4", "| 5 hosts x 1"))]
    assert len(rows) == 2
    assert all(float(row[3]) >= 0 for row in rows)
    (real,) = [line for line in lines if line.startswith("| 3 |")]
    assert float(real.split()[3]) > 0
