"""What NCCL does on real GPUs is right and faults are noticed; without GPUs, that the program for it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from busbw_testing.environ import clean_environ
from busbw_testing.shared_libraries import stand_in
from busbw_testing.started import completed

from busbw.machine.gpus import gpu_presence

PROGRAM: Final = Path(__file__).with_name("program.py")
OPTIONS: Final = (
    "unaligned", "graph", "aggregated", "registered", "windows", "managed memory", "host memory"
)  # fmt: skip
# Variable counts, pairs, groups, other check data: a part for each table or way, by the start of its name.
PATTERNS: Final = ("alltoallv", "all_gatherv", "permute", "groups", "random data", "all_ones data")
FAULTS: Final = (
    *("a flipped bit", "a flipped bit in a later call", "16 bytes past the end", "16 bytes before the start"),
    *("a changed send buffer", "a dropped rank", "a stale buffer", "two swapped ranks"),
)
TYPES: Final = 14
# NCCL does not reduce 16-bit integers.
REDUCED_TYPES: Final = TYPES - 2
# Collective x reduction x placement of a type: 3 that reduce, in both placements, with 6 reductions; of those
# that move, all_gather, broadcast, gather and scatter in both; alltoall, sendrecv, permute and the two with
# variable counts out of place only.
REDUCING, MOVING = 3 * 2 * 6, 4 * 2 + 5
# On one rank NCCL refuses the mean and the premultiplied sum of both 8-bit floats.
REFUSED_ALONE: Final = 3 * 2 * 2 * 2


def kinds(ranks: int) -> int:
    """Collective x type x reduction x placement on Hopper or newer, with NCCL 2.24 or newer."""
    hypercube = 2 if ranks & (ranks - 1) == 0 else 0
    refused = REFUSED_ALONE if ranks == 1 else 0
    return REDUCED_TYPES * REDUCING + TYPES * (MOVING + hypercube) + 1 - refused


def start(*words: str, timeout_s: float, **variables: str) -> subprocess.CompletedProcess[str]:
    own = {"BUSBW_NCCL": os.environ["BUSBW_NCCL"]} if "BUSBW_NCCL" in os.environ else {}
    words = (sys.executable, str(PROGRAM), *words)
    return completed(words, clean_environ(**{**own, **variables}), timeout_s)


def result_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode in (0, 1), done.stdout + done.stderr
    out: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return out


# ---- on GPUs ----------------------------------------------------------------------------------------------


def is_right(out: dict[str, Any], ranks: int) -> None:
    """The whole grid, in every part that this GPU and NCCL have, and all faults."""
    assert out["good"], out
    assert out["ranks"] == ranks
    grid = out["grid"]
    patterns = {name for name in grid if name.startswith(PATTERNS)}
    assert set(grid) - patterns == {"plain", "grouped", *OPTIONS}
    assert {start for start in PATTERNS if any(name.startswith(start) for name in patterns)} == set(PATTERNS)
    able = {name: part for name, part in grid.items() if "unavailable" not in part}
    assert all(part["cases"] > (0 if name in patterns else 100) for name, part in able.items())
    refused = grid["plain"]["inapplicable"]
    lacks_float8 = any("8-bit floats" in reason and "one rank" not in reason for reason in refused)
    missing = 2 * REFUSED_ALONE if lacks_float8 else 0
    assert kinds(ranks) - missing <= grid["plain"]["kinds"] <= kinds(ranks)
    assert grid["grouped"]["kinds"] == TYPES * (2 + 2 + 1)
    assert grid["grouped"]["conditions"]["grouped"] == grid["grouped"]["cases"]
    alone = {"a stale buffer", "two swapped ranks"} if ranks == 1 else set()
    assert set(out["faults"]) == set(FAULTS) - alone
    for name, fault in out["faults"].items():
        may_pass = name in ("two swapped ranks", "a changed send buffer")
        assert (fault["expected_unnoticed_cases"] > 0) == may_pass, name


@pytest.mark.gpu
@pytest.mark.timeout(900)
def test_a_rank_on_each_gpu() -> None:
    gpus = gpu_presence()
    if gpus.count == 0:
        pytest.skip(gpus.problem or "no GPU is visible")
    is_right(result_of(start("--ranks", str(gpus.count), timeout_s=850)), gpus.count)


@pytest.mark.gpu
@pytest.mark.timeout(900)
@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 8])
def test_more_ranks_than_gpus(ranks: int, mps_client: dict[str, str]) -> None:
    """As hosts that share one, over sockets."""
    is_right(result_of(start("--ranks", str(ranks), "--one-gpu", timeout_s=850, **mps_client)), ranks)


# ---- the program itself -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with libcuda and libnccl whose calls do nothing."""
    folder = tmp_path_factory.mktemp("stand_ins")
    stand_in("cuda", folder / "libcuda.so.1")
    stand_in("nccl", folder / "libnccl.so.2", "VERSION=22809")
    return folder


@pytest.mark.slow
def test_the_program_reaches_its_end_on_one_rank_without_a_gpu(stand_ins: Path) -> None:
    out = result_of(
        start(
            timeout_s=100,
            LD_LIBRARY_PATH=str(stand_ins),
            BUSBW_NCCL=str(stand_ins),
            BUSBW_LAUNCHER="busbw",
            BUSBW_RANK="0",
            BUSBW_WORLD_SIZE="1",
            BUSBW_LOCAL_RANK="1",  # the stand-ins have a context on their second GPU only
        )
    )
    patterns = {name for name in out["grid"] if name.startswith(PATTERNS)}
    assert patterns
    assert set(out["grid"]) - patterns == {"plain", "grouped", *OPTIONS}
    assert out["grid"]["plain"]["kinds"] == kinds(1)
    assert all(part["cases"] > 100 for name, part in out["grid"].items() if name not in patterns)
    # Nothing runs there, so nothing is wrong and every fault stays unnoticed, which is not what is expected.
    # Random data and ones are compared on the host, which sees that nothing ran.
    on_gpu = {name: part for name, part in out["grid"].items() if not name.endswith(" data")}
    assert all(part["wrong_cases"] == 0 for part in on_gpu.values())
    assert set(out["faults"]) == set(FAULTS) - {"a stale buffer", "two swapped ranks"}
    for fault in out["faults"].values():
        assert fault["cases"] == kinds(1) - 1
        assert fault["surprising_cases"] == fault["cases"] - fault["expected_unnoticed_cases"]
    assert not out["good"]
