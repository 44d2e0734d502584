from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

Script = Callable[..., str]


@pytest.mark.slow
@pytest.mark.usefixtures("mpicc")
def test_control_counts_both_worlds_and_times_looks(script: Script, tmp_path: Path) -> None:
    few = ("--ranks", "2,40", "--real", "2", "--many", "3", "--repeats", "10")
    text = script("control/control.py", *few, "--output", "out.json")
    kept = json.loads((tmp_path / "out.json").read_text())
    assert [world["ranks"] for world in kept["simulated"]] == [2, 40]
    assert [found["world"] for found in kept["many"]] == ["mpi", "nccl", "nccl over TCP"]
    assert all(len(look["barrier_ns"]) == 10 for found in kept["two"].values() for look in found["looks"])
    assert "| 40 | 78 | 117 |" in text
    assert "# 2 real ranks: 8 samples as simulated" in text
    assert "calls of a look on every rank: Ibarrier, Ireduce of 448 bytes, Ibcast of 448 bytes" in text
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith(("| mpi", "| nccl"))]
    assert [row[1] for row in rows] == ["2"] * 12 + ["3"] * 6
    assert (
        [row[3] for row in rows[:4]]
        == [row[3] for row in rows[4:8]]
        == [row[3] for row in rows[8:12]]
        == ["448", "14,224", "57,344", "229,376"]
    )
    assert len(re.findall(r"us a KiB of the vector", text)) == 3


def test_storage_says_what_rank_0_holds_and_what_is_left(script: Script) -> None:
    text = script("control/storage.py", "--ranks", "40", "--cases", "3", "--samples", "100")
    assert text.startswith("# 40 ranks x 3 cases x 100 samples\n")
    # Six series of 100 samples and 40 digests, of 36 and 64 bytes.
    assert "samples/digests.bin 0.01, samples/samples.bin 0.06" in text
    held = re.search(r"rank 0 holds at most ([\d.]+) MB more", text)
    assert held is not None
    assert 0 < float(held[1]) < 100
