"""CUDA's multi-process service, for tests in which several ranks are on one GPU.

Without it processes take turns of milliseconds on a GPU, and a collective is a turn of every rank for every
step. With it their kernels run at the same time. No setting of the card is changed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_CONTROL: Final = "nvidia-cuda-mps-control"
_START_SECONDS: Final = 20.0


def why_no_service() -> str:
    """Why there is none here; empty where there is one."""
    return "" if shutil.which(_CONTROL) else f"no {_CONTROL} here (it comes with the driver)"


@contextlib.contextmanager
def service(folder: Path) -> Iterator[dict[str, str]]:
    """A service of the test's own, on the first visible GPU; the variables that make a process its client.

    ``folder``: an existing one, with a short path, seen by every client.
    """
    client = {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    environ = {**os.environ, **client, "CUDA_VISIBLE_DEVICES": visible}
    subprocess.run([_CONTROL, "-d"], env=environ, check=True, timeout=_START_SECONDS)
    try:
        _asked("get_server_list", environ)
        yield client
    finally:
        _asked("quit", environ)


def _asked(command: str, environ: dict[str, str]) -> None:
    """Tell the daemon, which may not listen yet."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        done = subprocess.run(
            [_CONTROL], env=environ, input=command, text=True, capture_output=True, check=False, timeout=60
        )
        if done.returncode == 0:
            return
        time.sleep(0.1)
    raise OSError(f"{_CONTROL}: {command}: {done.stderr or done.stdout}")
