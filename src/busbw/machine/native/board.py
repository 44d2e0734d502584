"""Where the ranks of one host meet in memory that they share (native/board.cpp)."""

from __future__ import annotations

import ctypes
from typing import Final

from busbw.machine.native.core import LIBRARY_PATH, TIMED_OUT

BOARD_BYTES: Final = 128

_core = ctypes.CDLL(str(LIBRARY_PATH))
_core.busbw_board_arrive.restype = None
_core.busbw_board_arrive.argtypes = (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)
_core.busbw_board_wait.restype = ctypes.c_int32
_core.busbw_board_wait.argtypes = (ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int64, ctypes.c_int64)


def arrive(address: int, ranks: int, meeting: int) -> None:
    """This rank comes to the meeting, counted from 1. All that wait for it see what it wrote."""
    _core.busbw_board_arrive(address, ranks, meeting)


def wait(address: int, meeting: int, spin_ns: int, sleep_ns: int) -> bool:
    """Whether all ranks came to the meeting within the two times, of which the first is spent on a core."""
    return bool(_core.busbw_board_wait(address, meeting, spin_ns, sleep_ns) != TIMED_OUT)
