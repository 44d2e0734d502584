"""Streams that a shell has closed, signals in the first moments, and a libnccl that nothing would use."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Any

import pytest

NULL = ("all_reduce", "-b", "8", "-e", "8", "--backend", "null", "--world", "nccl", "--ranks", "2")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams_cost_no_run(launcher: Any, closed: str) -> None:
    words = ("sh", "-c", f'exec "$@" {closed}', "sh", *launcher.busbw, "run", *NULL)
    run = launcher.start(*words)
    done = run.finish()
    assert done.code == 0, done
    assert run.record()["status"] == "complete"
    assert "Error" not in done.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_busbw_is_imported_ends_it_as_ctrl_c_does(launcher: Any, number: int) -> None:
    words = (sys.executable, "-X", "importtime", "-m", "busbw", "run", *NULL)
    with subprocess.Popen(
        words, env=launcher.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if b"busbw.errors" in line)
        process.send_signal(number)
        process.stderr.read()
        assert process.wait() == 130


def test_a_path_of_libnccl_is_never_ignored(launcher: Any) -> None:
    done = launcher.run("all_reduce", "--ranks", "2", "--nccl", "/nope.so")
    assert (done.code, done.error.startswith("--nccl names /nope.so")) == (4, True)
    done = launcher.run("all_reduce", "--ranks", "2", BUSBW_NCCL="/nope.so")
    assert (done.code, done.error.startswith("--nccl names /nope.so")) == (4, True)
    done = launcher.run("all_reduce", "--ranks", "2", "--env", "BUSBW_NCCL=/nope.so")
    assert (done.code, done.error.startswith("--nccl names /nope.so")) == (4, True)
    done = launcher.run("all_reduce", "--ranks", "2", "--backend", "mpi", "--nccl", "/nope.so")
    assert (done.code, "does not use NCCL" in done.error) == (2, True)
