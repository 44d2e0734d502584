"""Followers of jobs: how a command's lines are printed, and one in the background where nobody watches."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from busbw.record.printed import Line

# What it says, for whoever asks why it did not do its work.
_SAID: Final = Path("log") / "follower.err"


def print_line(line: Line) -> None:
    """A line of a user's command, on the stream that it came by."""
    print(line.text, file=sys.stderr if line.is_error else sys.stdout, flush=True)


def leave_follower(folder: Path) -> int:
    """Start ``busbw attach`` of a run in a session of its own, which no terminal ends; its process id.

    Whoever attaches later reads along, and goes on in its place where it is gone.
    """
    with (folder / _SAID).open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "busbw", "attach", folder.name, "--format", "jsonl"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
        )
    process.returncode = 0  # it outlives us: nobody waits for it
    return process.pid
