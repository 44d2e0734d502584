"""What NCCL chose for a call, as it writes about one untimed call in its log; for where its profiler does not
tell (``nccl_profiler``).

It does where NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=TUNING, on rank 0 of a communicator. A
line a call would slow timed calls down, so the log is on for one call and off again: ncclResetDebugInit,
exported from 2.24 on, reads the variables anew.
"""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Callable, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from busbw._native.nccl import NcclLibrary
from busbw.model.choice import Choice
from busbw.model.tuning_line import tuning_lines

RESET: Final = "ncclResetDebugInit"
_LEVEL, _SUBSYSTEM, _FILE = "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"


def choice_in(text: str) -> Choice | None:
    """What the last line of NCCL's log that tells it says; None where no line does."""
    lines = tuning_lines(text)
    return lines[-1].choice if lines else None


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
