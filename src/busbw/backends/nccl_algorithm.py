"""What NCCL chose for a call, as it writes about one untimed call in its log; for where its profiler does not
tell (``nccl_profiler``).

It does where NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=TUNING, on rank 0 of a communicator. A
line a call would slow timed calls down, so the log is on for one call and off again: ncclResetDebugInit,
exported from 2.24 on, reads the variables anew.
"""

from __future__ import annotations

import ctypes
import re
import tempfile
from collections.abc import Callable, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from busbw._native.nccl import NcclLibrary
from busbw.model.choice import NCCL_ALGORITHMS, NCCL_PROTOCOLS, Choice

RESET: Final = "ncclResetDebugInit"
_LEVEL, _SUBSYSTEM, _FILE = "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"
# enqueue.cc: by algorithm; a symmetric kernel (2.27 on); copies by the copy engine (2.29 on).
_LINE: Final = re.compile(
    r"\b(?P<call>\w+)(?: \[(?P<kind>[\w ]+)\])?: \d+ Bytes -> "
    r"(?:Algo (?P<algorithm>\w+) proto (?P<protocol>\w+)|Kernel (?P<kernel>\w+))?"
    r"(?: channel\{Lo\.\.Hi\}=\{(?P<low>\d+)\.\.(?P<high>\d+)\}| nchannels (?P<channels>\d+))?"
)


def choice_in(text: str) -> Choice | None:
    """What the last line of NCCL's log that tells it says; None where no line does."""
    lines = list(_LINE.finditer(text))
    if not lines:
        return None
    found = lines[-1]
    channels = int(found["high"]) - int(found["low"]) + 1 if found["high"] else found["channels"]
    return Choice(
        source="log",
        algorithm=_named(found["algorithm"] or (found["kind"] or "").upper(), NCCL_ALGORITHMS),
        protocol=_named(found["protocol"] or "", NCCL_PROTOCOLS),
        kernel=found["kernel"] or "",
        functions=(found["call"],),
        channels=None if channels is None else int(channels),
    )


def _named(word: str, names: tuple[str, ...]) -> str:
    return names[int(word)] if word.isdecimal() and int(word) < len(names) else word


class AlgorithmWatch:
    """Turns NCCL's log on for one call. ``environ`` is this process's."""

    def __init__(self, nccl: NcclLibrary, environ: MutableMapping[str, str]) -> None:
        self._nccl, self._environ = nccl, environ

    @property
    def can_tell(self) -> bool:
        """Whether the log can be read anew, and no file of the user's would be begun anew with it."""
        return self._nccl.has(RESET) and _FILE not in self._environ

    def _reset(self) -> None:
        ctypes.CFUNCTYPE(None)(self._nccl.address(RESET))()

    def of(self, call: Callable[[], None]) -> Choice | None:
        """What NCCL writes about ``call``."""
        if not self.can_tell:
            call()
            return None
        before = {name: self._environ.get(name) for name in (_LEVEL, _SUBSYSTEM, _FILE)}
        with tempfile.TemporaryDirectory(prefix="busbw-") as folder:
            log = Path(folder) / "nccl.log"
            self._environ.update({_LEVEL: "INFO", _SUBSYSTEM: "TUNING", _FILE: str(log)})
            self._reset()
            try:
                call()
            finally:
                for name, value in before.items():
                    self._environ.pop(name)
                    if value is not None:
                        self._environ[name] = value
                self._reset()
            return choice_in(log.read_text(errors="replace")) if log.is_file() else None


def joined(profiled: Choice | None, logged: Choice | None) -> Choice | None:
    """One choice of two that were told of the same call. The profiler's counts; its first three versions do
    not tell the channels, which the log does.
    """
    if profiled is None or logged is None:
        return profiled or logged
    if profiled.channels is None and profiled.words == logged.words:
        return replace(profiled, source=f"{profiled.source}, log", channels=logged.channels)
    return profiled
