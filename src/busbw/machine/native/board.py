"""Where the ranks of one host meet in memory that they share (native/board.cpp)."""

from __future__ import annotations

from ctypes import c_int32, c_int64, c_uint32, c_void_p
from typing import Final

from busbw.machine.native.core import TIMED_OUT, exported

BOARD_BYTES: Final = 128

_arrive = exported("busbw_board_arrive", None, c_void_p, c_uint32, c_uint32)
_wait = exported("busbw_board_wait", c_int32, c_void_p, c_uint32, c_int64, c_int64)


def arrive(address: int, ranks: int, meeting: int) -> None:
    """This rank comes to the meeting, counted from 1. All that wait for it see what it wrote."""
    _arrive(address, ranks, meeting)


def wait(address: int, meeting: int, spin_ns: int, sleep_ns: int) -> bool:
    """Whether all ranks came to the meeting within the two times, of which the first is spent on a core."""
    return bool(_wait(address, meeting, spin_ns, sleep_ns) != TIMED_OUT)
