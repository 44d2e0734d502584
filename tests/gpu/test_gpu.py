"""What NCCL does on real GPUs is right and faults are noticed; without GPUs, that the program for it runs."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from busbw_testing.environ import clean_environ

from busbw.errors import SiteError
from busbw.machine.native.cuda import CudaDriver

PROGRAM: Final = Path(__file__).with_name("program.py")
STAND_INS: Final = Path(__file__).parents[1] / "unit" / "machine" / "stand_ins"
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
    return subprocess.run(
        [sys.executable, str(PROGRAM), *words],
        env=clean_environ(**{**own, **variables}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def result_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode in (0, 1), done.stdout + done.stderr
    out: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return out


# ---- on GPUs ----------------------------------------------------------------------------------------------


def visible_gpus() -> int:
    try:
        driver = CudaDriver()
        driver.init()
        return driver.device_count()
    except SiteError:
        return 0


@functools.cache
def found() -> dict[str, Any]:
    """What the ranks found, one for each visible GPU; they run once for all tests."""
    gpus = visible_gpus()
    if gpus == 0:
        pytest.skip("no GPU is visible")
    out = result_of(start("--ranks", str(gpus), timeout_s=850))
    assert out["ranks"] == gpus
    return out


@pytest.mark.gpu
@pytest.mark.timeout(900)
@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 8])
def test_more_ranks_than_gpus(ranks: int, mps_client: dict[str, str]) -> None:
    """As hosts that share one: the whole grid and all faults, over sockets."""
    out = result_of(start("--ranks", str(ranks), "--one-gpu", timeout_s=850, **mps_client))
    assert out["good"], out
    assert out["ranks"] == ranks
    assert out["grid"]["plain"]["kinds"] >= kinds(ranks) - 2 * REFUSED_ALONE
    assert all(fault["surprising"] == [] for fault in out["faults"].values())
    assert set(FAULTS) <= set(out["faults"])


@pytest.mark.gpu
@pytest.mark.timeout(900)
class TestOnGpus:
    def test_every_case_is_right_on_every_rank(self) -> None:
        plain = found()["grid"]["plain"]
        if not any("8-bit floats" in reason and "one rank" not in reason for reason in plain["inapplicable"]):
            assert plain["kinds"] == kinds(found()["ranks"])
        assert plain["wrong"] == []

    def test_grouped_sends_and_receives_are_right_too(self) -> None:
        grouped = found()["grid"]["grouped"]
        assert grouped["kinds"] == TYPES * (2 + 2 + 1)
        assert grouped["conditions"]["grouped"] == grouped["cases"]
        assert grouped["wrong"] == []

    @pytest.mark.parametrize("name", OPTIONS)
    def test_each_option_gives_the_same_results(self, name: str) -> None:
        part = found()["grid"][name]
        if "unavailable" in part:
            pytest.skip(part["unavailable"])
        assert part["cases"] > 300
        assert part["wrong"] == []

    @pytest.mark.parametrize("start_of_name", PATTERNS)
    def test_every_pattern_gives_right_results(self, start_of_name: str) -> None:
        parts = {name: part for name, part in found()["grid"].items() if name.startswith(start_of_name)}
        able = {name: part for name, part in parts.items() if "unavailable" not in part}
        if not able:
            pytest.skip(f"none of {sorted(parts)} is to be had here")
        for name, part in able.items():
            assert part["cases"] > 0, name
            assert part["wrong"] == [], name

    @pytest.mark.parametrize("fault", FAULTS)
    def test_a_fault_is_noticed_wherever_it_changes_the_result(self, fault: str) -> None:
        if fault not in found()["faults"]:
            pytest.skip(f"{fault} needs another GPU")
        caught = found()["faults"][fault]
        assert caught["surprising"] == []
        assert caught["unnoticed_cases"] == caught["expected_unnoticed_cases"]
        may_pass = ("two swapped ranks", "a changed send buffer")
        assert (caught["expected_unnoticed_cases"] > 0) == (fault in may_pass)


# ---- the program itself -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with libcuda and libnccl whose calls do nothing."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang", "g++"))), None)
    if compiler is None:
        pytest.skip("no C compiler for the stand-in libraries")
    folder = tmp_path_factory.mktemp("stand_ins")
    for source, target in (("cuda", "libcuda.so.1"), ("nccl", "libnccl.so.2")):
        words = [compiler, "-x", "c", "-w", "-shared", "-fPIC", "-DVERSION=22809"]
        subprocess.run([*words, "-o", str(folder / target), str(STAND_INS / f"{source}.c")], check=True)
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
