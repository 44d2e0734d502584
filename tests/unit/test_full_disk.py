"""The disk of the run folders is full: no job is forgotten, and nobody sees a traceback."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from busbw_testing import here_engine
from busbw_testing.environ import clean_environ
from busbw_testing.fronts import FRONT, LONG, SHORT

MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="the bundled mpich is not installed here")

# $1: a folder to mount a small file system on, then what to do there.
SMALL_DISK = 'mount -t tmpfs -o size=16m tmpfs "$1" && shift && eval "$1"'
FULL_AT_THE_JOB = """
import errno, os
from busbw.record import folder as folders
write = folders.replace_text
def full(path, pieces):
    if path.name == folders.JOB_FILE.name:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    write(path, pieces)
folders.replace_text = full
"""


def on_a_small_disk(tmp_path: Path, script: str, *, program: str = FRONT) -> subprocess.CompletedProcess[str]:
    """``script`` (shell; ``front WORDS`` is busbw) with BUSBW_HOME on a disk of 16 MiB."""
    home, out, file = tmp_path / "home", tmp_path / "out", tmp_path / "front.py"
    home.mkdir()
    out.mkdir()
    file.write_text(program)
    variables = {
        "BUSBW_HOME": str(home),
        "BUSBW_TEST_OUT": str(out),
        "BUSBW_TEST_UNSHARED": "1",
        "PYTHONPATH": str(Path(here_engine.__file__).parents[1]),
    }
    front = f'front() {{ "{sys.executable}" "{file}" "$@"; }}\n'
    words = ["unshare", "--map-root-user", "--mount", "sh", "-c", SMALL_DISK, "sh", home, front + script]
    done = subprocess.run(
        words, env=clean_environ(**variables), capture_output=True, text=True, timeout=180, check=False
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no namespaces of one's own here: {done.stderr.strip()}")
    return done


@pytest.mark.slow
def test_a_job_comes_home_though_the_disk_filled_while_it_was_followed(tmp_path: Path) -> None:
    words = " ".join(SHORT)
    done = on_a_small_disk(
        tmp_path,
        f"""BUSBW_TEST_FILL=$BUSBW_HOME/fill front {words}; echo "code $?"
        rm "$BUSBW_HOME/fill"; front attach; echo "code $?" """,
    )
    assert "Traceback" not in done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("code")] == ["code 4", "code 0"], (
        done.stderr
    )
    assert "submitted here job" in done.stderr
    assert "No space left on device; job" in done.stderr
    assert "was left as it is" in done.stderr
    assert "hint: free space in" in done.stderr
    attached = done.stdout.split("code 4")[1]
    assert len([line for line in attached.splitlines() if line[:1] == " "]) == 7


def test_nothing_is_submitted_where_the_request_cannot_be_kept(tmp_path: Path) -> None:
    fill = 'dd if=/dev/zero of="$BUSBW_HOME/fill" bs=1k 2>/dev/null'
    done = on_a_small_disk(tmp_path, f"{fill}; front {' '.join(SHORT)}; echo code $?")
    assert "code 4" in done.stdout, done
    assert "No space left on device, so nothing was submitted" in done.stderr
    assert "hint: free space in" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out" / "job.out").exists()


def test_a_job_that_cannot_be_kept_is_cancelled_and_named(tmp_path: Path) -> None:
    done = on_a_small_disk(tmp_path, f"front {' '.join(LONG)}; echo code $?", program=FULL_AT_THE_JOB + FRONT)
    assert "code 4" in done.stdout, done
    told = re.search(r"No space left on device, so here job (\d+) was cancelled", done.stderr)
    assert told is not None, done.stderr
    assert "hint: free space in" in done.stderr
    assert "Traceback" not in done.stderr
    for _ in range(250):
        if not Path(f"/proc/{told[1]}").exists():
            return
        time.sleep(0.02)
    raise AssertionError("the job is still there")
