"""A sample of the campaign of ``deaths.py``: random kills and stops, and the rank that is named."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("deaths.py")
# /dev/shm and /tmp of its own, so that files of tests beside it are not seen. The checkout stays.
SETUP = """set -e
mount -t tmpfs none /dev/shm
mkdir /dev/shm/.checkout
mount --bind "$PWD" /dev/shm/.checkout
mount -t tmpfs none /tmp
mkdir -p "$PWD"
mount --bind /dev/shm/.checkout "$PWD"
cd "$PWD"
exec "$0" "$@"
"""
PRIVATE = ("unshare", "--mount", "sh", "-c", SETUP)
ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_killed_or_stopped_rank_is_named_and_nothing_is_left() -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root for folders of its own")
    words = (*PRIVATE, sys.executable, str(PROGRAM), "--kills", "5", "--stops", "2", "--seed", "3")
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
