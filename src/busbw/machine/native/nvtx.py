"""Ranges around prepared calls, for a profiler that attaches through NVTX (native/nvtx.cpp)."""

from __future__ import annotations

from ctypes import c_char_p, c_int32, c_uint64, c_void_p
from typing import Final

from busbw.machine.native.core import Call, _taken, exported

DOMAIN: Final = "busbw"

_attach = exported("busbw_nvtx_attach", c_int32, c_char_p)
_ranged_call = exported("busbw_ranged_call", c_void_p, c_void_p, c_char_p, c_uint64)


def attach() -> bool:
    """Whether a profiler takes our ranges: the library that NVTX_INJECTION64_PATH names, where it is set.
    Decided at the first call, for the life of the process.
    """
    return bool(_attach(DOMAIN.encode()))


def ranged(call: Call, text: str, size_bytes: int) -> Call:
    """The call within a range, or itself where no profiler is attached. Takes the call over."""
    if not attach():
        return call
    (taken,) = _taken([call])
    return Call(_ranged_call(taken, text.encode(), size_bytes), call._keep)
