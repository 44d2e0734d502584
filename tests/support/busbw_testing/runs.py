"""busbw as a user starts it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from busbw_testing.environ import clean_environ

NULL: Final = ("--backend", "null", "--world", "nccl", "--ranks", "2")


def start(home: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with its runs in ``home``."""
    return subprocess.run(
        [sys.executable, "-m", "busbw", *words],
        env=clean_environ(BUSBW_HOME=str(home), **variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )
