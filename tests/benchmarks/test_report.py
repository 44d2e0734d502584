from __future__ import annotations

from collections.abc import Callable

import pytest

Script = Callable[..., str]


@pytest.mark.slow
def test_a_report_is_timed(script: Script) -> None:
    row = script("report/large.py", "--ranks", "32", "--cases", "6", "--rounds", "1").splitlines()[-1]
    ranks, cases, built, cpu, megabytes, shown = row.strip("| ").split(" | ")
    assert (ranks, cases, shown) == ("32", "6", "n/a")
    assert float(cpu) > 0
    assert float(built) > 0
    assert 0 < float(megabytes) < 10
