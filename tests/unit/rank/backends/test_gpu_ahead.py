from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# Which thread made the context and loaded the kernels, and what the backend's own driver gets.
PROGRAM = """
import sys, threading
from busbw.machine.native import cuda

class Driver(cuda.CudaDriver):
    def primary_context_retain(self, device):
        print("context", device, threading.current_thread().name)
        return super().primary_context_retain(device)

    def module_load(self, image):
        print("kernels", threading.current_thread().name)
        return super().module_load(image)

cuda.CudaDriver = Driver
from busbw.rank.backends import gpu_ahead
for local_rank in sys.argv[1:]:
    gpu_ahead.begin(int(local_rank))
print("module", hex(gpu_ahead.kernels(Driver())))
"""


@pytest.mark.parametrize(
    ("local_ranks", "told"),
    [
        (("1",), ["context 1 busbw-gpu", "kernels busbw-gpu", "module 0x400"]),
        # A GPU that is not there is reported by the backend, not here.
        (("7",), ["kernels MainThread", "module 0x400"]),
        ((), ["kernels MainThread", "module 0x400"]),
    ],
)
def test_the_thread_makes_the_context_and_loads_the_kernels(
    build_stand_in: Callable[..., str], tmp_path: Path, local_ranks: tuple[str, ...], told: list[str]
) -> None:
    (tmp_path / "libcuda.so.1").symlink_to(build_stand_in("cuda"))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *local_ranks],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == told
