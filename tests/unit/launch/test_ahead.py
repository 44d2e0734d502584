"""Ranks that start before it is known what they are to do: real processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.launch import ahead


@pytest.fixture(autouse=True)
def none_left() -> Iterator[None]:
    yield
    ahead.dismiss()


def test_a_run_takes_the_ranks_that_wait_and_ends_those_that_it_does_not_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSBW_HOME", str(tmp_path))
    ahead.begin(3)
    pids = [process.pid for process in ahead._waiting.values()]
    words = ("--backend", "null", "--world", "nccl", "--ranks", "2", "-b", "8", "-e", "8")
    assert main(["run", "all_reduce", *words]) == 0
    (run,) = tmp_path.glob("*/run.json")
    assert [rank["pid"] for rank in json.loads(run.read_text())["world"]["ranks"]] == pids[:2]
    assert not any(Path("/proc", str(pid)).exists() for pid in pids)


def test_variables_that_a_process_reads_as_it_starts_need_a_new_one() -> None:
    ahead.begin(1)
    assert ahead.take(ahead.RANK_COMMAND, {"LD_LIBRARY_PATH": "/opt/nccl/lib"}) is None
    assert ahead.take(("mpiexec", *ahead.RANK_COMMAND), {}) is None


def test_a_rank_that_gets_no_variables_ends_silently() -> None:
    ahead.begin(1)
    process = ahead._waiting["0"]
    assert process.communicate() == (b"", b"")
    assert process.returncode == 0


@pytest.mark.parametrize(("named", "count"), [(None, 2), ("1", 1), ("", 0), ("0,1,2", 2)])
def test_device_nodes_and_cuda_visible_devices_promise_gpus(
    tmp_path: Path, named: str | None, count: int
) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl"):
        (tmp_path / name).touch()
    environ = {} if named is None else {"CUDA_VISIBLE_DEVICES": named}
    assert ahead.likely_gpus(environ, tmp_path) == count
