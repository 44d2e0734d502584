"""Which algorithm NCCL picked for a call: what it writes about one untimed call, and nothing inferred.

NCCL says it in its log where NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=TUNING, on rank 0 of a communicator. A
line a call would slow timed calls down, so the log is on for one call and off again: ncclResetDebugInit,
exported from 2.24 on, reads the variables anew.
"""

from __future__ import annotations

import ctypes
import re
import tempfile
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Final

from busbw._native.nccl import NcclLibrary

RESET: Final = "ncclResetDebugInit"
_LEVEL, _SUBSYSTEM, _FILE = "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"
# enqueue.cc: by algorithm; a symmetric kernel (2.27 on); copies by the copy engine (2.29 on).
_LINE: Final = re.compile(
    r"\b(?P<call>\w+)(?: \[(?P<kind>[\w ]+)\])?: \d+ Bytes -> "
    r"(?:Algo (?P<algorithm>\w+) proto (?P<protocol>\w+)|Kernel (?P<kernel>\w+))?"
)
# Up to 2.23 numbers stand for names (graph/tuning.cc has them in this order).
_ALGORITHMS: Final = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
_PROTOCOLS: Final = ("LL", "LL128", "SIMPLE")


def algorithm_of(text: str) -> str:
    """Algorithm and protocol by the last line of NCCL's log that tells them, as ``RING LL128``; ``SYMMETRIC``
    and the kernel, or ``COPY ENGINE``, where there is no algorithm. Empty where no line does.
    """
    lines = list(_LINE.finditer(text))
    if not lines:
        return ""
    found = lines[-1]
    if found["algorithm"]:
        return f"{_named(found['algorithm'], _ALGORITHMS)} {_named(found['protocol'], _PROTOCOLS)}"
    kind = (found["kind"] or "").upper()
    return f"{kind} {found['kernel'] or ''}".strip()


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

    def of(self, call: Callable[[], None]) -> str:
        """What NCCL writes about ``call``, see ``algorithm_of``."""
        if not self.can_tell:
            call()
            return ""
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
            return algorithm_of(log.read_text(errors="replace")) if log.is_file() else ""
