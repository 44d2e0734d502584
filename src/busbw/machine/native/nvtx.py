"""Ranges around prepared calls, for a profiler that attaches through NVTX (native/nvtx.cpp)."""

from __future__ import annotations

import ctypes
from typing import Final

from busbw.machine.native.core import LIBRARY_PATH, Call, _taken

DOMAIN: Final = "busbw"

_core = ctypes.CDLL(str(LIBRARY_PATH))
_core.busbw_nvtx_attach.restype = ctypes.c_int32
_core.busbw_nvtx_attach.argtypes = (ctypes.c_char_p,)
_core.busbw_ranged_call.restype = ctypes.c_void_p
_core.busbw_ranged_call.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64)


def attach() -> bool:
    """Whether a profiler takes our ranges: the library that NVTX_INJECTION64_PATH names, where it is set.
    Decided at the first call, for the life of the process.
    """
    return bool(_core.busbw_nvtx_attach(DOMAIN.encode()))


def ranged(call: Call, text: str, size_bytes: int) -> Call:
    """The call within a range, or itself where no profiler is attached. Takes the call over."""
    if not attach():
        return call
    (taken,) = _taken([call])
    return Call(_core.busbw_ranged_call(taken, text.encode(), size_bytes), call._keep)
