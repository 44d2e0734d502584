"""The native core as NCCL's tuner plugin: what it shall answer, and what it was asked last.

One state for the process, which NCCL fills: it opens the same library by the path that it was given.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Final

from busbw.machine.native.core import exported
from busbw.model.choice import NCCL_ALGORITHMS, NCCL_PROTOCOLS

SITES_OWN: Final = (-1, -1, 0, 0)  # the site's tuner chooses, or NCCL where the site has none


class _Choice(ctypes.Structure):
    _fields_ = (
        ("algorithm", ctypes.c_int32),
        ("protocol", ctypes.c_int32),
        ("channels", ctypes.c_int32),
        ("chunk_bytes", ctypes.c_int32),
    )


class _Call(ctypes.Structure):
    _fields_ = (
        ("calls", ctypes.c_uint64),
        ("costs", ctypes.c_float * len(NCCL_PROTOCOLS) * len(NCCL_ALGORITHMS)),
    )


_version = exported("busbw_tuner_version", ctypes.c_int32)
_choose = exported("busbw_tuner_choose", None, _Choice)
_last = exported("busbw_tuner_last", None, ctypes.POINTER(_Call))


@dataclass(frozen=True)
class Asked:
    """``calls`` that NCCL asked about; ``possible``: (algorithm, protocol) by its numbers, of the last."""

    calls: int
    possible: frozenset[tuple[int, int]]


def version() -> int:
    """Of the interface by which NCCL has loaded the tuner; 0 where no communicator has."""
    return int(_version())


def choose(algorithm: int, protocol: int, channels: int, chunk_bytes: int) -> None:
    """By NCCL's numbers, for every call that is issued from now on; 0 channels or bytes: what NCCL takes."""
    _choose(_Choice(algorithm, protocol, channels, chunk_bytes))


def last() -> Asked:
    """What NCCL asked last, of whatever communicator."""
    call = _Call()
    _last(ctypes.byref(call))
    possible = frozenset(
        (algorithm, protocol)
        for algorithm, costs in enumerate(call.costs)
        for protocol, cost in enumerate(costs)
        if cost >= 0
    )
    return Asked(call.calls, possible)
