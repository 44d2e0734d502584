"""Ranks beside a launcher's process: started by it, with its output, and ended with it.

They stay in its process group, so that a launcher which ends the group ends them too; the kernel ends them
where the process vanishes; and what the launcher asks of the process, it asks of them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Final

from busbw.errors import ExitCode, SiteError
from busbw.launch.base import Command
from busbw.launch.processes import die_with_parent

# How long the others may take to leave by themselves once one has ended badly: they hear of it over their
# channel, and rank 0 closes the record.
LEAVE_SECONDS: Final = 10.0
_GRACE_SECONDS: Final = 3.0
_LOOK_SECONDS: Final = 0.02


class Beside:
    """The processes of some commands. Raises SiteError for one that cannot be started."""

    def __init__(self, commands: Sequence[Command], leave_seconds: float = LEAVE_SECONDS) -> None:
        self._leave_seconds = leave_seconds
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            for command in commands:
                self._processes.append(_start(command))
        except OSError as error:
            self.end()
            raise SiteError(f"cannot start {error.filename}: {error.strerror}") from error

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids, in the order of the commands."""
        return tuple(process.pid for process in self._processes)

    def wait(self) -> tuple[int, int]:
        """Until all have ended. Gives the first bad exit, as index and code (negative for a signal), or
        (-1, 0). Nothing runs meanwhile in this process.
        """
        while True:
            codes = [process.poll() for process in self._processes]
            index, code = _first_bad(codes)
            if code or None not in codes:
                break
            # Whoever has ended since then is still to be waited for, so this returns.
            _sleep_until_one_ends()
            time.sleep(_LOOK_SECONDS)
        if code:
            self._await_end(self._leave_seconds)
            self.end()
        return index, code

    def end(self) -> None:
        """Ask them to end, then insist. Waits until they are gone."""
        for process in self._running():
            for number in (signal.SIGTERM, signal.SIGCONT):  # a stopped process would not hear it
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(number)
        self._await_end(_GRACE_SECONDS)
        for process in self._running():
            process.kill()
            process.wait()

    def _await_end(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self._running() and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)

    def _running(self) -> list[subprocess.Popen[bytes]]:
        return [process for process in self._processes if process.poll() is None]


def _first_bad(codes: Sequence[int | None]) -> tuple[int, int]:
    """A process that was killed before others: that says more than what those make of it."""
    bad = [(index, code) for index, code in enumerate(codes) if code]
    return min(bad, key=lambda each: (each[1] > 0, each[0]), default=(-1, 0))


def exit_status(code: int) -> int:
    """What a process leaves with whose rank ended so: the ranks' own status, or that one died."""
    return code if code >= 0 else int(ExitCode.RANK_FAILED)


def _sleep_until_one_ends() -> None:
    with contextlib.suppress(ChildProcessError):  # somebody else has waited for it
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)


def _start(command: Command) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command.argv,
        env={**os.environ, **command.environ},
        stdin=subprocess.DEVNULL,
        preexec_fn=die_with_parent,  # noqa: PLW1509 (no thread of ours holds a lock here)
    )
