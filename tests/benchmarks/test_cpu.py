from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.usefixtures("mpicc")
def test_fidelity_compares_both_loops_and_keeps_every_block(
    script: Callable[..., str], tmp_path: Path
) -> None:
    few = ("--sizes", "8,64K", "--launches", "2", "--most-launches", "2", "--seconds", "0.001")
    text = script("cpu/fidelity.py", *few, "--output", "out.json")
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["ranks"] == 2
    assert "MPICH" in result["mpi"]
    cases = {
        "all_reduce 8 B",
        "all_reduce 64 KiB",
        "all_gather 32 B",  # 8 B would round to nothing
        "all_gather 64 KiB",
        "sendrecv 8 B",
        "sendrecv 64 KiB",
    }
    assert {row["key"] for row in result["rows"]} == cases
    assert {row["launch"] for row in result["rows"]} == {0, 1}
    assert all(len(row["log_ratios"]) >= 8 and row["plain_us"] > 0 for row in result["rows"])
    assert all(case in text for case in cases)
