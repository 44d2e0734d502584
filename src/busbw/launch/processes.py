"""Start commands on this host, follow their output, and leave no process behind."""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Final, Self

from busbw.errors import SiteError
from busbw.launch import ahead
from busbw.launch.agent import Children, signal_group, start
from busbw.launch.base import Command

_GRACE_SECONDS: Final = 3.0
_KILLED_SECONDS: Final = 10.0
# What a process gets to end by itself once its input has ended.
_HANG_UP_SECONDS: Final = 5.0
_WAIT_SECONDS: Final = 0.02
_CHUNK_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class Line:
    """A line that a process wrote. ``process`` is its index."""

    process: int
    text: str
    is_error: bool


@dataclass(frozen=True)
class Exit:
    """A process that ended. ``code`` is negative for a signal, as subprocess has it."""

    process: int
    code: int


class Processes:
    """The running commands. Each has a session of its own, so that Ctrl-C reaches the front process alone
    and it decides what to end; and each is ended by the kernel if the front process vanishes.

    ``insisted`` is asked while ending: True stops the wait for last words. ``has_input``: the processes read
    what ``say`` sends; the others have an empty standard input. Raises SiteError for a command that cannot be
    started.
    """

    def __init__(
        self,
        commands: Sequence[Command],
        insisted: Callable[[], bool] = lambda: False,
        *,
        has_input: bool = False,
    ) -> None:
        self._unsent: dict[int, deque[memoryview]] = {}  # by the descriptor that it is written to
        self._selector = selectors.DefaultSelector()
        self._children = Children(self._selector)
        self._insisted = insisted
        self._processes: list[subprocess.Popen[bytes]] = []
        stdin = subprocess.PIPE if has_input else subprocess.DEVNULL
        for command in commands:
            try:
                waiting = ahead.take(command.argv, command.environ)
                self._processes.append(waiting or start(command.argv, command.environ, stdin))
            except OSError as error:
                self.end()
                program = error.filename or command.argv[0]
                raise SiteError(f"cannot start {program}: {error.strerror}") from error
        ahead.dismiss()
        for index, process in enumerate(self._processes):
            self._children.add(index, process)
            if process.stdin is not None:
                os.set_blocking(process.stdin.fileno(), False)
                self._unsent[process.stdin.fileno()] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end()

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids, in the order of the commands."""
        return tuple(process.pid for process in self._processes)

    def follow(self, idle_seconds: Callable[[], float] = lambda: 0.2) -> Iterator[Line | Exit | None]:
        """Lines and exits as they come, None at least every ``idle_seconds()``; ends when all have ended."""
        running, pipes = self._children.running, self._selector.get_map()
        while running or pipes:
            # A process closes its pipes before the kernel is through with it, which takes a moment.
            for key, _ in self._selector.select(idle_seconds() if running and pipes else _WAIT_SECONDS):
                if key.fd in self._unsent:
                    self._send(key.fd)
                else:
                    yield from self._take(key)
            for index, process, keys in self._children.ended():
                for key in keys:  # what it has left in them
                    yield from self._take(key)
                yield Exit(index, process.returncode)
            yield None
            if not running and not (pipes and self._selector.select(0)):
                return

    def say(self, index: int, *parts: bytes) -> None:
        """Send bytes to a process's standard input while its output is followed."""
        pipe = self._processes[index].stdin
        assert pipe is not None
        unsent = self._unsent[pipe.fileno()]
        if not unsent:
            self._selector.register(pipe, selectors.EVENT_WRITE, None)
        unsent.extend(map(memoryview, parts))

    def end(self) -> None:
        """End the input of processes that have one and let them go; ask every process group that is left to
        end, then insist. Waits until they are gone, but no longer than the kernel usually takes: who hangs in
        a driver ends with its call.
        """
        for process in self._processes:
            _close(process.stdin)
        if self._unsent:
            self._wait(_HANG_UP_SECONDS)
        for process in self._processes:
            signal_group(process, signal.SIGTERM)
        self._wait(_GRACE_SECONDS)
        for process in self._processes:
            signal_group(process, signal.SIGKILL)  # also what a leader left behind in its group
        deadline = time.monotonic() + _KILLED_SECONDS
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        self._selector.close()
        for process in self._processes:
            _close(process.stdout)
            _close(process.stderr)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while any(process.poll() is None for process in self._processes):
            if time.monotonic() >= deadline or self._insisted():
                return
            time.sleep(_WAIT_SECONDS)

    def _send(self, fd: int) -> None:
        unsent = self._unsent[fd]
        try:
            sent = os.write(fd, unsent[0][:_CHUNK_BYTES])
            unsent[0] = unsent[0][sent:]
            if not unsent[0]:
                unsent.popleft()
        except BlockingIOError:
            return
        except OSError:  # it has ended
            unsent.clear()
        if not unsent:
            self._selector.unregister(fd)

    def _take(self, key: selectors.SelectorKey) -> Iterator[Line]:
        index, is_error = key.data
        for text in self._children.read(key):
            yield Line(index, text, is_error)


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        pipe.close()


def pass_on(
    commands: Sequence[Command], is_over: Callable[[], bool], last_words_seconds: float
) -> dict[int, int]:
    """Run commands and print what they write, as whole lines: ranks that shared a pipe would write into each
    other's. Gives the exit codes of those that ended, by their index, in the order of their ends. All are
    ended where ``is_over``, and so long after one has ended badly. Raises SiteError for one that cannot be
    started.
    """
    codes: dict[int, int] = {}
    until_s = math.inf
    with Processes(commands) as running:
        for item in running.follow():
            if isinstance(item, Line):
                print(item.text, file=sys.stderr if item.is_error else sys.stdout, flush=True)
            elif isinstance(item, Exit):
                codes[item.process] = item.code
                until_s = min(until_s, time.monotonic() + last_words_seconds) if item.code else until_s
            if is_over() or time.monotonic() > until_s:
                break
    return codes
