"""The native core as NCCL's profiler plugin: is it loaded, what shall NCCL tell, what did it tell.

One state for the process, which NCCL fills: it opens the same library by the path that it was given.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Final

from busbw.machine.native.core import exported

# NCCL's bits of events.
COLLECTIVE: Final = 2
TRANSFER: Final = 4
CALL: Final = 512
ENGINE_COPIES: Final = 4096
EVENTS_KEPT: Final = 8192


class NcclEvent(ctypes.Structure):
    """One event (core_api.h). Words are empty and numbers -1 where it has none."""

    _fields_ = (
        ("sequence", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
        ("kind", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("peer", ctypes.c_int32),
        ("channels", ctypes.c_int32),
        ("warps", ctypes.c_int32),
        ("function", ctypes.c_char * 24),
        ("algorithm", ctypes.c_char * 24),
        ("protocol", ctypes.c_char * 12),
        ("kernel", ctypes.c_char * 48),
    )


_version = exported("busbw_profiler_version", ctypes.c_int32)
_watch = exported("busbw_profiler_watch", None, ctypes.c_int32)
_events = exported("busbw_profiler_events", ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)


def version() -> int:
    """Of the interface by which NCCL has loaded the plugin; 0 where no communicator has."""
    return int(_version())


def watch(mask: int) -> None:
    """Have NCCL tell events of these kinds from the next call on, and forget what it told before; 0 ends it.
    Before, nothing is called and a timed call costs what it does without a plugin.
    """
    _watch(mask)


def events() -> tuple[Sequence[NcclEvent], int]:
    """The last events, oldest first, at most EVENTS_KEPT; and how many were told."""
    kept = (NcclEvent * EVENTS_KEPT)()
    told = int(_events(kept, EVENTS_KEPT))
    return kept[: min(told, EVENTS_KEPT)], told
