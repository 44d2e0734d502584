"""Preflight as a user meets it: real ranks on this host, with faults planted in their environment."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from busbw_testing.environ import clean_environ
from busbw_testing.runs import NULL, start

PLUGIN = "/no/such/folder/libnccl-net.so"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def joined(tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """Ranks that somebody's launcher started, each with variables of its own: rank 0's code and output."""

    def run(words: tuple[str, ...], *of_ranks: dict[str, str]) -> tuple[int, str, str]:
        common = {
            "WORLD_SIZE": str(len(of_ranks)),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "TORCHELASTIC_RUN_ID": secrets.token_hex(8),
            "BUSBW_HOME": str(tmp_path / "home"),
        }
        ranks = [
            subprocess.Popen(
                [sys.executable, "-m", "busbw", *words],
                env=clean_environ(**{**common, "RANK": str(rank), "LOCAL_RANK": str(rank), **own}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank, own in enumerate(of_ranks)
        ]
        told = [rank.communicate(timeout=60) for rank in ranks]
        assert len({rank.returncode for rank in ranks}) == 1, told
        assert all(not out and not err for out, err in told[1:]), told
        return ranks[0].returncode, *told[0]

    return run


def record_of(home: Path) -> dict[str, Any]:
    (folder,) = home.glob("2*")
    fields = json.loads((folder / "run.json").read_text())
    assert isinstance(fields, dict)
    return fields


def test_a_healthy_host_passes_and_says_so(tmp_path: Path) -> None:
    done = start(tmp_path, "preflight", *NULL)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("# busbw ")
    assert lines[1] == "# ranks    2 on 1 host, world nccl, started by busbw"
    assert lines[2] == "# result   nothing found"
    assert start(tmp_path, "show", "last").stdout == done.stdout
    record = record_of(tmp_path)
    assert (record["status"], record["findings"]) == ("complete", [])
    assert {result["status"] for result in record["results"]} == {"not-run"}


def test_where_nobody_could_look_nothing_is_said_to_be_well(tmp_path: Path) -> None:
    """An address of this machine where nobody listens: the launcher cannot start its rank."""
    done = start(tmp_path, "preflight", "--on", "hosts", "--hosts", "127.0.0.99")
    assert done.returncode == 4
    assert "# result   nothing was checked: no rank has answered" in done.stdout
    assert "nothing found" not in done.stdout
    assert "hint: its last words: " in done.stderr
    assert "ssh: " in done.stderr
    assert ".c:" not in done.stderr  # hydra's own source helps nobody


def test_a_plugin_path_that_does_not_exist(tmp_path: Path) -> None:
    done = start(tmp_path, "run", "all_reduce", "-e", "64", *NULL, NCCL_NET_PLUGIN=PLUGIN)
    assert done.returncode == 4
    error, hint = done.stderr.splitlines()
    assert error == (
        f"error: NCCL_NET_PLUGIN={PLUGIN} names a plugin that the loader does not find on any rank"
    )
    assert hint.startswith("hint: give its path")
    record = record_of(tmp_path)
    assert (record["status"], record["error"]) == ("failed", error.removeprefix("error: "))
    (finding,) = record["findings"]
    assert (finding["check"], finding["severity"]) == ("files", "error")
    assert "NCCL_NET_PLUGIN" in start(tmp_path, "show", "last").stdout


def test_no_preflight_leaves_it_out(tmp_path: Path) -> None:
    words = ("run", "all_reduce", "-e", "64", *NULL, "--no-preflight")
    done = start(tmp_path, *words, NCCL_NET_PLUGIN=PLUGIN)
    assert (done.returncode, done.stderr) == (0, "")
    assert record_of(tmp_path)["findings"] == []


def test_a_warning_is_told_and_strict_makes_an_error_of_it(joined: Any, tmp_path: Path) -> None:
    odd = ({"LD_LIBRARY_PATH": "/tmp"}, {"LD_LIBRARY_PATH": "/var"})
    words = ("run", "all_reduce", "-b", "8", "-e", "8", "--backend", "null")
    code, out, err = joined(words, *odd)
    assert (code, err) == (0, "")
    assert "# warning  LD_LIBRARY_PATH: '/var' on rank 1 (" in out
    shown = start(tmp_path / "home", "show", "last")
    assert shown.stdout == out  # to the letter
    code, out, err = joined((*words, "--strict"), *odd)
    assert code == 4
    assert "# error    LD_LIBRARY_PATH: '/var' on rank 1 (" in out
    assert err.startswith("error: ")


def test_two_ranks_on_one_gpu(joined: Any, build_library: Callable[..., Path]) -> None:
    """A launcher that calls both ranks the first of their host. Driver and NCCL are stand-ins."""
    driver = build_library("cuda", name="libcuda.so.1")
    nccl = build_library("nccl", "VERSION=22809", name="libnccl.so.2")
    common = {"LD_LIBRARY_PATH": str(driver.parent), "BUSBW_NCCL": str(nccl), "LOCAL_RANK": "0"}
    code, out, err = joined(("preflight", "--backend", "nccl", "-e", "64"), common, common)
    assert code == 4
    assert "ranks 0, 1 share one GPU (GPU-00102030-4050-6070-8090-a0b0c0d0e0f0 on" in err
    assert "share one GPU" in out


def test_csv_keeps_standard_output_to_itself(joined: Any) -> None:
    odd = ({"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "2"})
    words = ("run", "all_reduce", "-b", "8", "-e", "8", "--backend", "null", "--format")
    code, out, err = joined((*words, "csv"), *odd)
    assert (code, len(out.splitlines())) == (0, 3)
    assert "# warning  OMP_NUM_THREADS: '2' on rank 1" in err


def test_deep_copies_between_ranks_and_says_what_is_not_here(tmp_path: Path) -> None:
    bare = str(tmp_path / "bin")  # no tool is on this path, whatever the machine has
    done = start(tmp_path / "home", "preflight", *NULL, "--deep", "-e", "1M", PATH=bare)
    assert (done.returncode, done.stderr) == (0, "")
    # 1 us and 1 ns for every 100 bytes: 2^20 bytes in 11.486 us.
    assert "# note     copies to the next rank: median 91.3 GB/s" in done.stdout
    assert "dcgmi did not run on" in done.stdout
    assert "copies between host and GPU were left out: the backend is null" in done.stdout


def test_deep_takes_in_what_tools_say(tmp_path: Path) -> None:
    """Programs in the tools' place, with their words: what is tried is that they are run, read and judged."""
    words = {"name": "software", "results": [{"gpu_ids": "0", "status": "Fail", "warnings": ["row remap"]}]}
    diagnostic = {"DCGM GPU Diagnostic": {"test_categories": [{"category": "Deployment", "tests": [words]}]}}
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "dcgmi").write_text(f"#!/bin/sh\necho '{json.dumps(diagnostic)}'\nexit 1\n")
    (folder / "nvbandwidth").write_text("#!/bin/sh\necho 'cannot open a display' >&2\nexit 3\n")
    for tool in folder.iterdir():
        tool.chmod(0o755)
    path = f"{folder}:/usr/bin:/bin"
    done = start(tmp_path / "home", "preflight", *NULL, "--deep", "-e", "1K", PATH=path)
    host = os.uname().nodename
    assert done.returncode == 4
    assert done.stderr.startswith(f"error: dcgmi on {host}: software GPU 0: row remap")
    assert f"# warning  nvbandwidth on {host}: cannot open a display" in done.stdout
