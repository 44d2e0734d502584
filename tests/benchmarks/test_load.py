from __future__ import annotations

from collections.abc import Callable

import pytest

Script = Callable[..., str]


@pytest.mark.slow
def test_a_load_of_nothing_beside_a_collective(script: Script) -> None:
    words = ("all_reduce", "-b", "64K", "--ranks", "2", "--backend", "mpi", "--case-time", "0.3s")
    _, _, *rows = script("load/alone.py", "--launches", "2", "--", *words).splitlines()
    mean, median, *_ = (row.strip("| ").split(" | ") for row in rows)
    assert mean[:3] == ["compute:share=0", "all_reduce 64 KiB", "mean"]
    assert median[2] == "median"
    assert 0.2 < float(mean[3]) < 5
    assert sum(map(int, mean[4:])) == 2
