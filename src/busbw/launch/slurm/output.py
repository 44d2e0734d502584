"""What a job on Slurm prints: from files in the run folder, or read on its first node by a step beside it.

srun labels every line with its task, and cuts long ones: a task's output travels in messages of 1,024 bytes,
each of which gets a label and, if it has none, a line break (seen with 22.05). So a labelled part of exactly
that length is not the end of its line, and an event is whole when it is whole JSON.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Sequence
from typing import Final

from busbw.launch.scheduler import environ_outside_jobs

_MESSAGE_BYTES: Final = 1024
_LABEL: Final = re.compile(rb" *(\d+): (.*)", re.DOTALL)
_EVENT_START: Final = b'{"busbw":'
_CHUNK_BYTES: Final = 1 << 20

# Runs on the job's first node with the names of its two output files. It ends when nobody listens any more;
# when everything was read, it removes them, which is what the job script waits for.
_NOTHING_THERE: Final = 3
_READER: Final = f"""
[ -e "$1" ] || exit {_NOTHING_THERE}
tail -c +1 -f -- "$1" 2>/dev/null | sed -u 's/^/O/' &
tail -c +1 -f -- "$2" 2>/dev/null | sed -u 's/^/E/' &
read -r said && [ "$said" = "all read" ] && rm -f -- "$1" "$2"
trap '' TERM
kill 0
exit 0
"""


class NodeReader:
    """As SharedFiles, of a step on the job's first node that reads the files there. ``srun`` are the words
    that start it.
    """

    def __init__(self, srun: Sequence[str], out: str, err: str) -> None:
        self._process = subprocess.Popen(
            [*srun, "sh", "-c", _READER, "busbw-reader", out, err],
            env=environ_outside_jobs(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for this process, which decides what to end
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._rest = b""

    def read(self) -> list[tuple[bool, bytes]]:
        """See SharedFiles."""
        assert self._process.stdout is not None
        data = self._rest
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self._process.stdout.fileno(), _CHUNK_BYTES):
                data += piece
        *lines, self._rest = data.split(b"\n")
        return [(line[:1] == b"E", line[1:]) for line in lines]

    @property
    def found_nothing(self) -> bool:
        """See SharedFiles."""
        return self._process.poll() == _NOTHING_THERE

    @property
    def has_ended(self) -> bool:
        """The step could not start, had nothing to read, or ended with the job."""
        return self._process.poll() is not None

    def close(self, *, everything_read: bool) -> None:
        """See SharedFiles."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            if everything_read:
                self._process.stdin.write(b"all read\n")
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


class Joiner:
    """Puts cut lines together again, for one stream."""

    def __init__(self) -> None:
        self._open: dict[int, bytes] = {}

    def take(self, line: bytes) -> tuple[int | None, bytes] | None:
        """The task (None: the job script or srun) and its line, or None where its end is still to come."""
        match = _LABEL.fullmatch(line)
        if match is None:
            return None, line
        task, part = int(match[1]), match[2]
        begun = self._open.pop(task, b"")
        whole = part if part.startswith(_EVENT_START) else begun + part  # it died within a line
        if len(part) == _MESSAGE_BYTES or _is_cut_event(whole):
            self._open[task] = whole
            return None
        return task, whole

    def rest(self) -> list[tuple[int, bytes]]:
        """What has no end where the stream has one: a task's last line may lack its line break. The beginning
        of an event is left out.
        """
        found = [(task, line) for task, line in self._open.items() if not line.startswith(_EVENT_START)]
        self._open.clear()
        return found


def _is_cut_event(line: bytes) -> bool:
    """Where a version of Slurm cuts elsewhere, an event still tells: it ends with its closing brace."""
    return line.startswith(_EVENT_START) and not line.endswith(b"}")
