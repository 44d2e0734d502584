"""A tuner's table as NCCL's plugin reads it, without NCCL."""

from __future__ import annotations

import ctypes
from pathlib import Path

from busbw.machine.native.core import LIBRARY_PATH

LONGEST_COMPLAINT = 1024

_core = ctypes.CDLL(str(LIBRARY_PATH))
_core.busbw_tuner_read.restype = ctypes.c_int32
_core.busbw_tuner_read.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint64)


def rows_of(path: Path) -> int:
    """The number of rows of a table. Raises ValueError, in its words, where the plugin would refuse it."""
    complaint = ctypes.create_string_buffer(LONGEST_COMPLAINT)
    rows = int(_core.busbw_tuner_read(str(path).encode(), complaint, LONGEST_COMPLAINT))
    if rows < 0:
        raise ValueError(complaint.value.decode(errors="replace"))
    return rows
