"""What NCCL tells its profiler plugin on real GPUs is what it writes into its own log, size by size."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Final

import pytest
from busbw_testing.runs import start_process as start

from busbw.machine.gpus import gpu_presence

GPUS: Final = gpu_presence()
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(GPUS.count < 2, reason=GPUS.problem or "only one GPU is visible"),
]

# The library that the person who runs the tests chose.
OWN: Final = {"BUSBW_NCCL": os.environ["BUSBW_NCCL"]} if "BUSBW_NCCL" in os.environ else {}
RANKS: Final = 2
COLLECTIVES: Final = ("all_reduce", "all_gather", "reduce_scatter", "reduce")
# From 16 bytes a rank on: smaller ones have no part in an all_gather.
SWEEP: Final = ("-b", "64", "-e", "128M", "-f", "8", "-c", "1")
SIZES: Final = 8
# From 2.24 on; before, numbers instead of words and no channels.
LINE: Final = re.compile(
    r" (\w+): (\d+) Bytes -> Algo (\S+) proto (\S+) channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}"
)
NCCL_NAMES: Final = dict(zip(COLLECTIVES, ("AllReduce", "AllGather", "ReduceScatter", "Reduce"), strict=True))
# NCCL writes a task's own bytes: of these two a rank's part.
PARTED: Final = ("all_gather", "reduce_scatter")

Told = dict[tuple[str, int], tuple[str, str, int]]


def run(home: Path, *words: str, **variables: str) -> dict[str, Any]:
    done = start(
        home, "run", *words, "--backend", "nccl", "--ranks", str(RANKS), "-n", "20",
        "--stats", "algorithm", "channels", **OWN, **variables,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = home.glob("2*")
    record: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return record


def profiled(record: dict[str, Any]) -> Told:
    """By operation and size, out of place: algorithm, protocol, channels."""
    told: Told = {}
    for case, result in zip(record["plan"]["cases"], record["results"], strict=True):
        choice = result["choice"]
        if case["placement"] == "out-of-place":
            assert choice is not None, case
            assert choice["source"].startswith("profiler v"), choice
            assert (choice["ranks"], choice["other_ranks"]) == (RANKS, 0)
            key = case["collective"], case["size_bytes"]
            told[key] = choice["algorithm"], choice["protocol"], choice["channels"]
    return told


def logged(folder: Path) -> Told:
    """The same from NCCL's lines about all calls of a run; every call of a size has to say the same."""
    told: Told = {}
    names = {name: operation for operation, name in NCCL_NAMES.items()}
    for file in folder.iterdir():
        for name, size, algorithm, protocol, low, high in LINE.findall(file.read_text()):
            if name in names:
                whole = int(size) * (RANKS if names[name] in PARTED else 1)
                choice = algorithm, protocol, int(high) - int(low) + 1
                assert told.setdefault((names[name], whole), choice) == choice
    return told


def test_each_size_is_told_as_in_nccl_s_own_log(tmp_path: Path) -> None:
    watched = profiled(run(tmp_path / "watched", *COLLECTIVES, *SWEEP))
    logs = tmp_path / "logs"
    logs.mkdir()
    run(
        tmp_path / "logged", *COLLECTIVES, *SWEEP,
        NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="TUNING", NCCL_DEBUG_FILE=f"{logs}/%p",
    )  # fmt: skip
    lines = logged(logs)
    assert len(watched) == len(COLLECTIVES) * SIZES
    assert {key: lines.get(key) for key in watched} == watched


def test_sends_and_receives_tell_peers_and_channels(tmp_path: Path) -> None:
    record = run(tmp_path, "alltoall", "sendrecv", "-b", "1M", "-e", "1M")
    choices = [result["choice"] for result in record["results"] if result["choice"] is not None]
    assert {tuple(choice["functions"]) for choice in choices} == {("Send", "Recv")}
    assert all(choice["peers"] == RANKS - 1 and choice["channels"] > 0 for choice in choices)
    assert not [result["algorithm"] for result in record["results"] if result["algorithm"]]


def test_inside_a_cuda_graph_too(tmp_path: Path) -> None:
    record = run(tmp_path, "all_reduce", "-b", "1M", "-e", "1M", "-G", "1")
    assert all(result["algorithm"] for result in record["results"])


def test_the_record_has_nothing_that_the_user_did_not_set(tmp_path: Path) -> None:
    record = run(tmp_path, "all_reduce", "-b", "1M", "-e", "1M")
    variables = record["environment"]["variables"]
    assert not [name for name in variables if name.startswith(("NCCL_PROFILER", "NCCL_DEBUG"))]


def test_a_plugin_of_the_users_stays_and_the_log_tells(tmp_path: Path) -> None:
    record = run(tmp_path, "all_reduce", "-b", "1M", "-e", "1M", NCCL_PROFILER_PLUGIN="none")
    assert {result["choice"]["source"] for result in record["results"]} == {"log"}
    assert record["environment"]["variables"]["NCCL_PROFILER_PLUGIN"] == "none"
