from __future__ import annotations

from collections.abc import Callable

import pytest

Script = Callable[..., str]


def test_simulated_soaks_have_a_row_for_each_kind_of_windows(script: Script) -> None:
    told = script("soak/simulate.py", "--soaks", "1", "--plants", "2", "--windows", "100", "--length", "60")
    rows = [line for line in told.splitlines() if line.startswith("| ") and "windows" not in line]
    assert len(rows) == 2 * 6
    assert rows[0].startswith("| normal, 1 % | 0.00 | 0 |")


@pytest.mark.slow
def test_two_checks_of_this_machine(script: Script) -> None:
    told = script(
        "soak/healthy.py", "--checks", "2", "--", "--backend", "null", "--world", "nccl", "--ranks", "2"
    )
    assert "2 checks, exit codes {0: 2}" in told


@pytest.mark.slow
def test_planted_faults_of_a_short_soak(script: Script) -> None:
    wrong, _, memory, *_ = script("soak/planted.py", "--time", "15", "--shared", "3").splitlines()
    assert wrong.endswith("(rank, element) [(1, 3)]")
    assert "exit code 1" in wrong
    assert memory.startswith("memory of rank 0: ")
