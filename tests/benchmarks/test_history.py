from __future__ import annotations

from collections.abc import Callable

import pytest

Script = Callable[..., str]


def test_changes_of_level_are_simulated(script: Script) -> None:
    lines = script("history/simulate.py", "--points", "300", "--series", "5").splitlines()
    alarms = {cells[0]: float(cells[1]) for line in lines[2:12] if (cells := line.strip("| ").split(" | "))}
    assert alarms["independent"] < 10
    found = next(line for line in lines if line.startswith("| 100 |")).strip("| ").split(" | ")
    assert float(found[2]) >= 0.6  # within six launches, of five series


@pytest.mark.slow
def test_the_index_is_timed(script: Script) -> None:
    first, history, adding = script("history/index.py", "--runs", "60", "--sizes", "3").splitlines()
    assert first.startswith("index of 60 runs of 3 cases: ")
    assert float(history.split(": ")[1].split()[0]) > 0
    assert float(adding.split(": ")[1].split()[0]) > 0
