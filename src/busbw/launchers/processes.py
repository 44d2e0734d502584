"""Start the commands of a request on this host, follow their output, and leave no process behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Final, Self

from busbw.errors import SiteError
from busbw.launchers.base import Command, LaunchRequest

_GRACE_SECONDS: Final = 3.0
_KILLED_SECONDS: Final = 10.0
_WAIT_SECONDS: Final = 0.02
_PR_SET_PDEATHSIG: Final = 1
_CHUNK_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class Line:
    """A line that a process wrote. ``process`` is its index in the request."""

    process: int
    text: str
    is_error: bool


@dataclass(frozen=True)
class Exit:
    """A process that ended. ``code`` is negative for a signal, as subprocess has it."""

    process: int
    pid: int
    code: int


class Processes:
    """The running commands. Each has a session of its own, so that Ctrl-C reaches the front process alone
    and it decides what to end; and each is ended by the kernel if the front process vanishes.

    ``insisted`` is asked while ending: True stops the wait for last words. Raises SiteError for a command
    that cannot be started.
    """

    def __init__(self, request: LaunchRequest, insisted: Callable[[], bool] = lambda: False) -> None:
        self._buffers: dict[int, bytes] = {}
        self._selector = selectors.DefaultSelector()
        self._insisted = insisted
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            for command in request.commands:
                self._processes.append(_start(command))
        except OSError as error:
            self.end()
            raise SiteError(f"cannot start {error.filename}: {error.strerror}") from error
        for index, process in enumerate(self._processes):
            self._watch(process.stdout, index, is_error=False)
            self._watch(process.stderr, index, is_error=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids, in the order of the request."""
        return tuple(process.pid for process in self._processes)

    def follow(self, idle_seconds: float = 0.2) -> Iterator[Line | Exit | None]:
        """Lines and exits as they come, None at least every ``idle_seconds``; ends when all have ended."""
        running = set(range(len(self._processes)))
        while running or self._selector.get_map():
            yield from self._read(idle_seconds if running else 0.05)
            for index in sorted(running):
                code = self._processes[index].poll()
                if code is not None:
                    running.discard(index)
                    yield from self._drain(index)
                    yield Exit(index, self._processes[index].pid, code)
            yield None
            if not running and not self._readable():
                return

    def end(self) -> None:
        """Ask every process group to end, then insist. Waits until they are gone, but no longer than the
        kernel usually takes: who hangs in a driver ends with its call.
        """
        for process in self._processes:
            _signal_group(process, signal.SIGTERM)
            _signal_group(process, signal.SIGCONT)  # a stopped process would not hear it
        deadline = time.monotonic() + _GRACE_SECONDS
        while any(process.poll() is None for process in self._processes):
            if time.monotonic() >= deadline or self._insisted():
                break
            time.sleep(_WAIT_SECONDS)
        for process in self._processes:
            _signal_group(process, signal.SIGKILL)  # also what a leader left behind in its group
        deadline = time.monotonic() + _KILLED_SECONDS
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        self._selector.close()
        for process in self._processes:
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    def _watch(self, pipe: IO[bytes] | None, index: int, *, is_error: bool) -> None:
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
            self._buffers[pipe.fileno()] = b""
            self._selector.register(pipe, selectors.EVENT_READ, (index, is_error))

    def _readable(self) -> bool:
        return bool(self._selector.get_map()) and bool(self._selector.select(0))

    def _read(self, timeout: float) -> Iterator[Line]:
        for key, _ in self._selector.select(timeout):
            index, is_error = key.data
            yield from self._take(key.fd, index, is_error)

    def _drain(self, index: int) -> Iterator[Line]:
        """What a process that ended has left in its pipes."""
        for key in list(self._selector.get_map().values()):
            if key.data[0] == index:
                yield from self._take(key.fd, *key.data)

    def _take(self, fd: int, index: int, is_error: bool) -> Iterator[Line]:
        while True:
            try:
                data = os.read(fd, _CHUNK_BYTES)
            except BlockingIOError:
                return
            if not data:
                self._selector.unregister(fd)
                data = b"\n" if self._buffers[fd] else b""
            *lines, self._buffers[fd] = (self._buffers[fd] + data).split(b"\n")
            for line in lines:
                yield Line(index, line.decode(errors="replace"), is_error)
            if fd not in self._selector.get_map():
                return


def _start(command: Command) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command.argv,
        env={**os.environ, **command.environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509 (no thread of ours holds a lock here)
    )


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def die_with_parent() -> None:
    """Between fork and exec: the kernel ends this process with the one that started it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
