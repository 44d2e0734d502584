"""A Python of a given version: this machine's, else one in a root that is made of Debian's packages."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from busbw_testing.kubernetes_tools import cache

# The suite of Debian that has this version. None has 3.12.
SUITES: Final = {"3.11": "bookworm", "3.13": "trixie", "3.14": "sid"}
MOST_SECONDS: Final = 300
# In a mount namespace of its own, so nothing stays mounted: the machine's devices and processes, and FOLDER.
ENTER: Final = """
for path in /dev /proc "$2"; do
  mkdir -p "$1$path" && mount --rbind "$path" "$1$path" || exit
done
root=$1 && shift 2 && exec chroot "$root" "$@"
"""

Command = tuple[str, ...]


def find_python(version: str, folder: Path) -> Command | None:
    """The start of a command line that is Python ``version`` and sees ``folder``; None where there is none.

    Where it runs in a root of its own, it sees nothing else of this machine's files.
    """
    for python in _candidates(version, folder):
        # One that really runs: a pyenv shim is there for versions that are not.
        if subprocess.run([*python, "-c", ""], check=False, capture_output=True).returncode == 0:
            return python
    return None


def _candidates(version: str, folder: Path) -> Iterator[Command]:
    if found := shutil.which(f"python{version}"):
        yield (found,)
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for python in versions.glob(f"{version}.*/bin/python"):
        yield (str(python),)
    if version in SUITES and os.geteuid() == 0 and (root := _root(version)):
        yield (*enter(root, folder), f"/usr/bin/python{version}")


def enter(root: Path, folder: Path) -> Command:
    """The start of a command line that runs in ``root``, where ``folder`` has the same path as here."""
    return ("unshare", "--mount", "sh", "-c", ENTER, "sh", str(root), str(folder))


def _root(version: str) -> Path | None:
    """A minimal Debian with this Python, made at first use (15 s, 200 MB); None where it cannot be."""
    root = cache() / f"debian-python{version}"
    root.parent.mkdir(parents=True, exist_ok=True)
    with (root.parent / f"{root.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if root.exists() or _make(version, root):
            return root
    return None


def _make(version: str, root: Path) -> bool:
    with tempfile.TemporaryDirectory(prefix="debian-", dir=root.parent) as work:
        new = Path(work) / "root"
        words = ("mmdebstrap", "--variant=minbase", "--mode=root", f"--include=python{version}-venv")
        # A machine's clock may be ahead of its mirror's last update.
        dated = '--aptopt=Acquire::Check-Valid-Until "false"'
        try:
            subprocess.run(
                [*words, dated, SUITES[version], str(new)],
                check=True,
                capture_output=True,
                timeout=MOST_SECONDS,
            )
        except (OSError, subprocess.SubprocessError):
            return False  # no mmdebstrap, no archive
        new.rename(root)
    return True
