"""A container's log as it is written, through reconnections: no line lost, none twice.

The API resumes at whole seconds only (`sinceTime`), so what was seen of the last second is known by its
times, and left out when it comes again.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import urllib3

from busbw.errors import SiteError
from busbw.launch.kubernetes.api import POD, Api, Denied, NotFound, Query, unreachable

_STAMP: Final = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)\Z")
# A connection that is silent for so long is opened anew: it may be dead.
_TIMEOUT: Final = (5.0, 30.0)
_AGAIN_SECONDS: Final = 0.3
# Errors in a row are answered with rising intervals, up to this one: what holds a result is not given up.
_MOST_PAUSE_SECONDS: Final = 3.0

Take = Callable[[str], None]


class Position:
    """How far a log was read. ``new`` takes the lines of a connection, each behind its time, and gives the
    texts of those that were not there before.
    """

    def __init__(self) -> None:
        self._since = b""  # the second of the last line
        self._seen: list[bytes] = []  # the times of all its lines

    @property
    def since(self) -> str:
        """Where to resume; empty at the start."""
        return self._since.decode()

    def new(self, lines: Iterable[bytes]) -> Iterator[str]:
        """See the class."""
        known = list(self._seen)  # none at the start
        for line in lines:
            stamp, _, text = line.partition(b" ")
            if known and stamp == known[0]:
                known.pop(0)
                continue
            match = _STAMP.match(stamp)
            if match is None:  # not a line of the log: the API's own word on it
                continue
            known.clear()
            second = match[1] + match[2]
            if second != self._since:
                self._since, self._seen = second, []
            self._seen.append(stamp)
            yield text.decode(errors="replace")


class LogStream(threading.Thread):
    """Follows one container from its first line to its last. ``take`` is called in this thread.

    ``is_over``: whether the container has ended, by the engine's last look; asked before reading, so that
    the last reading is complete. ``error`` says why a log cannot be read now.
    """

    def __init__(self, api: Api, pod: str, container: str, take: Take, is_over: Callable[[], bool]) -> None:
        super().__init__(name=f"log-{pod}", daemon=True)
        self.error: SiteError | None = None
        self._api, self._pod, self._container = api, pod, container
        self._take, self._is_over = take, is_over
        self._position = Position()
        self._left = threading.Event()

    @property
    def unread(self) -> bool:
        """Whether there may be lines that were not read."""
        return self.is_alive() or self.error is not None

    def leave(self) -> None:
        """Read no more, soon."""
        self._left.set()

    def run(self) -> None:
        """The thread: read until the container has ended, and then once more."""
        errors = 0
        while not self._left.is_set():
            over = self._is_over()
            try:
                self._read(follow=not over)
            except NotFound:
                self.error = None
                return  # the pod is gone
            except Denied as error:
                self.error = error
                return
            except SiteError as error:
                errors, self.error = errors + 1, error
                self._left.wait(min(_AGAIN_SECONDS * errors, _MOST_PAUSE_SECONDS))
                continue
            except (urllib3.exceptions.HTTPError, OSError):
                # Silent for a while, or cut: neither is the end.
                time.sleep(_AGAIN_SECONDS)
                continue
            errors, self.error = 0, None
            if over:
                return
            time.sleep(_AGAIN_SECONDS)

    def _read(self, *, follow: bool) -> None:
        query = [("container", self._container), ("timestamps", "true")]
        query += [("follow", "true")] if follow else []
        query += [("sinceTime", self._position.since)] if self._position.since else []
        for text in self._position.new(_lines(self._api, self._pod, query, complete=not follow)):
            self._take(text)


def _lines(api: Api, pod: str, query: Query, *, complete: bool = True) -> Iterator[bytes]:
    """The lines of a pod's log; where it may have been cut, half a line at its end comes again."""
    rest = b""
    response = api.stream(POD.path(api.namespace, pod) + "/log", query, _TIMEOUT)
    try:
        for chunk in response.stream(amt=None):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
        if rest and complete:
            yield rest
    finally:
        response.close()


def read_log(api: Api, pod: str, container: str) -> Iterator[str]:
    """What a container has printed so far. Raises SiteError."""
    try:
        for line in _lines(api, pod, [("container", container)]):
            yield line.decode(errors="replace")
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise unreachable(error, api.host) from error
