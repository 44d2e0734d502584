"""Ranks of the bundled MPI."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from busbw_testing.environ import clean_environ
from busbw_testing.started import completed

MPIEXEC: Final = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
needs_mpiexec = pytest.mark.skipif(MPIEXEC is None, reason="the bundled mpich is not installed here")
# Ranks that wait leave the core to the rank that they wait for: 8 ranks on 2 cores run 6 times faster.
YIELDING: Final = {
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1",
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "4",
}
# The same for ranks elsewhere.
YIELDING_WORDS: Final = tuple(
    word for name, value in YIELDING.items() for word in ("--env", f"{name}={value}")
)


def said_by_ranks(
    ranks: int,
    program: Path,
    *words: str,
    timeout_s: float = 100,
    launcher: Sequence[str] = (),
    **variables: str,
) -> Any:
    """What rank 0 of a program printed, which is JSON. ``launcher`` are the words before the program, of the
    bundled MPI where there are none.
    """
    launcher = launcher or (str(MPIEXEC), "-n", str(ranks), sys.executable)
    done = completed([*launcher, program, *words], clean_environ(**variables), timeout_s)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@contextmanager
def load(busy: bool) -> Iterator[None]:
    """Another process on one of this machine's cores meanwhile, where it is asked for."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if busy else None
    try:
        yield
    finally:
        if process is not None:
            process.kill()
            process.wait()
