"""Preflight with NCCL on real GPUs: what it hears, and the faults that need no more than one host."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.runs import start_process as start

from busbw.machine.gpus import gpu_presence

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(gpu_presence().count < 2, reason=gpu_presence().problem or "only one GPU is visible"),
]

# The library that the person who runs the tests chose.
OWN = {"BUSBW_NCCL": os.environ["BUSBW_NCCL"]} if "BUSBW_NCCL" in os.environ else {}
TWO = ("--backend", "nccl", "--ranks", "2", "-e", "1M")
NO_LINKS = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", **OWN}


def findings(home: Path) -> list[dict[str, Any]]:
    (folder,) = home.glob("2*")
    found: list[dict[str, Any]] = json.loads((folder / "run.json").read_text())["findings"]
    return found


def test_gpus_that_are_well(tmp_path: Path) -> None:
    done = start(tmp_path, "preflight", *TWO, **OWN)
    assert done.returncode == 0, done.stderr
    assert "unheard" not in [found["check"] for found in findings(tmp_path)]
    assert not [found for found in findings(tmp_path) if found["severity"] == "error"]


def test_forced_sockets_inside_a_host(tmp_path: Path) -> None:
    done = start(tmp_path, "run", "all_reduce", *TWO, "-b", "1M", "--strict", **NO_LINKS)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "NCCL's ranks on one host communicate over a network" in done.stderr
    (found,) = [each for each in findings(tmp_path) if each["check"] == "inside-hosts"]
    assert "NET/Socket" in found["evidence"] or "NET/IB" in found["evidence"]
    assert "NCCL_P2P_DISABLE=1" in found["evidence"]


def test_forced_sockets_are_told_and_measured_without_strict(tmp_path: Path) -> None:
    done = start(tmp_path, "run", "all_reduce", *TWO, "-b", "1M", **NO_LINKS)
    assert done.returncode == 0, done.stderr
    assert "# warning  NCCL's ranks on one host communicate over a network" in done.stdout
    (folder,) = tmp_path.glob("2*")
    variables = json.loads((folder / "run.json").read_text())["environment"]["variables"]
    assert not [name for name in variables if name.startswith("NCCL_DEBUG")]  # put back


def test_a_network_that_is_not_there(tmp_path: Path) -> None:
    done = start(tmp_path, "preflight", *TWO, "--expect-use", "net=ofi", **OWN)
    assert done.returncode == 4
    assert "net=ofi" in done.stderr


def test_the_users_own_log_is_still_theirs(tmp_path: Path) -> None:
    done = start(tmp_path, "preflight", *TWO, NCCL_DEBUG="INFO", **OWN)
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.glob("2*")
    log = "".join(path.read_text(errors="replace") for path in (folder / "log").glob("*.log"))
    assert "NCCL INFO" in log
    assert "unheard" not in [found["check"] for found in findings(tmp_path)]


def test_deep_copies(tmp_path: Path) -> None:
    done = start(tmp_path, "preflight", *TWO, "--deep", **OWN)
    assert done.returncode in (0, 4), done.stderr  # dcgmi may find something
    claims = [found["claim"] for found in findings(tmp_path)]
    for kind in ("from host to GPU", "from GPU to host", "to the next rank"):
        assert [claim for claim in claims if claim.startswith(f"copies {kind}: median")], claims
