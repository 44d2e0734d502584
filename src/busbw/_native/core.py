"""Typed access to ``libbusbw_core.so``: the timing loops, prepared calls, and the data to move and check.

A ctypes call here is a *look* (many calls of the collective) or a set-up step, never one iteration, so what
the binding costs does not show. The structs mirror ``native/core_api.h``; ``busbw_core_abi`` guards the pair.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.errors import SiteError

CORE_ABI: Final = 3
LIBRARY_PATH: Final = Path(__file__).with_name("libbusbw_core.so")
DEVICE_CODE_PATH: Final = Path(__file__).with_name("pattern_device.ptx")

# Statuses as in core_api.h.
INTERRUPTED: Final = -2
TIMED_OUT: Final = -3
NCCL_ERROR: Final = 1 << 20
CUDA_ERROR: Final = 2 << 20
_CODE_BITS: Final = (1 << 20) - 1

NO_WRONG_ELEMENT: Final = 2**64 - 1

Int64Array = npt.NDArray[np.int64]


class Pattern(ctypes.Structure):
    """What all ranks agree on about check data (native/pattern.hpp)."""

    _fields_ = (
        ("seed", ctypes.c_uint64),
        ("ranks", ctypes.c_uint32),
        ("dtype", ctypes.c_int32),
        ("op", ctypes.c_int32),
        ("modulus_log2", ctypes.c_uint32),
        ("group", ctypes.c_uint32),
        ("ranks_div_group", ctypes.c_uint32),
        ("ranks_mod_group", ctypes.c_uint32),
        ("type_bytes", ctypes.c_uint32),
    )


class Region(ctypes.Structure):
    """A run of elements and what they hold; offset and count in elements."""

    _fields_ = (
        ("offset", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
        ("first_index", ctypes.c_uint64),
        ("kind", ctypes.c_int32),
        ("rank", ctypes.c_int32),
    )


class CheckResult(ctypes.Structure):
    """Wrong elements, the first of them, and an order-independent digest of all that were looked at."""

    _fields_ = (
        ("wrong", ctypes.c_uint64),
        ("first_wrong", ctypes.c_uint64),
        ("digest", ctypes.c_uint64),
    )


class Rotation(ctypes.Structure):
    """Slot ``s`` starts ``s * stride`` bytes into an allocation."""

    _fields_ = (
        ("send_stride", ctypes.c_uint64),
        ("recv_stride", ctypes.c_uint64),
        ("slots", ctypes.c_uint64),
    )


class MpiSpec(ctypes.Structure):
    """A prepared MPI call; see BusbwMpiSpec."""

    _fields_ = (
        ("collective", ctypes.c_int32),
        ("handle_bytes", ctypes.c_int32),
        ("large_count", ctypes.c_int32),
        ("root", ctypes.c_int32),
        ("send_to", ctypes.c_int32),
        ("recv_from", ctypes.c_int32),
        ("function", ctypes.c_void_p),
        ("datatype", ctypes.c_uint64),
        ("op", ctypes.c_uint64),
        ("comm", ctypes.c_uint64),
        ("send", ctypes.c_void_p),
        ("recv", ctypes.c_void_p),
        ("send_count", ctypes.c_int64),
        ("recv_count", ctypes.c_int64),
        ("rotation", Rotation),
    )


class NcclTable(ctypes.Structure):
    """Function addresses of the libnccl in use."""

    _fields_ = tuple(
        (name, ctypes.c_void_p)
        for name in (
            "all_reduce",
            "all_gather",
            "send",
            "recv",
            "group_start",
            "group_end",
            "get_async_error",
        )
    )


class CudaTable(ctypes.Structure):
    """Function addresses of the libcuda in use."""

    _fields_ = tuple(
        (name, ctypes.c_void_p) for name in ("event_record", "event_query", "event_elapsed_time")
    )


class NcclSpec(ctypes.Structure):
    """A prepared NCCL call; see BusbwNcclSpec."""

    _fields_ = (
        ("collective", ctypes.c_int32),
        ("datatype", ctypes.c_int32),
        ("op", ctypes.c_int32),
        ("root", ctypes.c_int32),
        ("send_to", ctypes.c_int32),
        ("recv_from", ctypes.c_int32),
        ("nccl", ctypes.POINTER(NcclTable)),
        ("comm", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("send", ctypes.c_void_p),
        ("recv", ctypes.c_void_p),
        ("count", ctypes.c_uint64),
        ("rotation", Rotation),
    )


class Stream(ctypes.Structure):
    """A stream with its preallocated events; see BusbwStream."""

    _fields_ = (
        ("cuda", ctypes.POINTER(CudaTable)),
        ("nccl", ctypes.POINTER(NcclTable)),
        ("comm", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("events", ctypes.POINTER(ctypes.c_void_p)),
        ("interrupt", ctypes.POINTER(ctypes.c_int32)),
        ("timeout_ns", ctypes.c_int64),
    )


def _load() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(LIBRARY_PATH))
    except OSError as error:
        raise SiteError(
            f"the native core cannot be loaded: {error}",
            hint="install busbw from a wheel, or rebuild it: `pip install .`, in a checkout `make core`",
        ) from error
    if library.busbw_core_abi() != CORE_ABI:
        raise SiteError(
            f"{LIBRARY_PATH} has interface {library.busbw_core_abi()}, this Python code wants {CORE_ABI}",
            hint="reinstall busbw so that both come from one build",
        )
    return library


_P = ctypes.c_void_p
_U64 = ctypes.c_uint64
_I64 = ctypes.c_int64
_SIGNATURES: Final = {
    "busbw_now_ns": (_I64, ()),
    "busbw_pattern_init": (
        ctypes.c_int32,
        (ctypes.POINTER(Pattern), _U64, ctypes.c_uint32, ctypes.c_int32, ctypes.c_int32),
    ),
    "busbw_fill": (ctypes.c_int32, (_P, ctypes.POINTER(Pattern), ctypes.POINTER(Region))),
    "busbw_check": (
        ctypes.c_int32,
        (_P, ctypes.POINTER(Pattern), ctypes.POINTER(Region), ctypes.POINTER(CheckResult)),
    ),
    "busbw_mpi_call": (_P, (ctypes.POINTER(MpiSpec),)),
    "busbw_nccl_call": (_P, (ctypes.POINTER(NcclSpec),)),
    "busbw_null_call": (_P, ()),
    "busbw_call_free": (None, (_P,)),
    "busbw_issue": (ctypes.c_int32, (_P, _U64)),
    "busbw_time_host": (ctypes.c_int32, (_P, _U64, _U64, _U64, _P)),
    "busbw_time_events": (ctypes.c_int32, (_P, ctypes.POINTER(Stream), _U64, _U64, _U64, _P, _P)),
    "busbw_time_loop": (ctypes.c_int32, (_P, ctypes.POINTER(Stream), _U64, _P)),
    "busbw_stream_wait": (ctypes.c_int32, (ctypes.POINTER(Stream),)),
}

_core = _load()
for _name, (_restype, _argtypes) in _SIGNATURES.items():
    _function = getattr(_core, _name)
    _function.restype, _function.argtypes = _restype, _argtypes


def now_ns() -> int:
    """The clock of the timing loops: CLOCK_MONOTONIC in nanoseconds."""
    return int(_core.busbw_now_ns())


def pattern(seed: int, ranks: int, dtype: int, op: int) -> Pattern:
    """The data of one check, the same on all ranks. Raises ValueError where type and operation have none."""
    out = Pattern()
    if _core.busbw_pattern_init(ctypes.byref(out), seed, ranks, dtype, op) != 0:
        raise ValueError(f"no check data for type {dtype} and operation {op}")
    return out


def fill(address: int, data: Pattern, region: Region) -> None:
    """Write a region of host memory."""
    _require_ok(_core.busbw_fill(address, ctypes.byref(data), ctypes.byref(region)))


def check(address: int, data: Pattern, region: Region, into: CheckResult) -> None:
    """Compare a region of host memory, adding to ``into``."""
    _require_ok(_core.busbw_check(address, ctypes.byref(data), ctypes.byref(region), ctypes.byref(into)))


def new_check_result() -> CheckResult:
    """A result that has seen nothing yet."""
    return CheckResult(0, NO_WRONG_ELEMENT, 0)


def _require_ok(status: int) -> None:
    if status != 0:
        raise ValueError(f"the native core refused its arguments (status {status})")


@dataclass(frozen=True)
class CallError(Exception):
    """A library's own error code, or why our wait ended (INTERRUPTED, TIMED_OUT)."""

    status: int

    @property
    def gpu_library(self) -> str:
        """Of a call on a GPU: nccl, cuda, or empty where the status is our own."""
        tags = {NCCL_ERROR: "nccl", CUDA_ERROR: "cuda"}
        return tags.get(self.status & ~_CODE_BITS, "") if self.status > 0 else ""

    @property
    def gpu_code(self) -> int:
        """That library's own number. MPI's numbers are the status itself."""
        return self.status & _CODE_BITS if self.status > 0 else self.status


def _touched(samples: int) -> Int64Array:
    """Room for samples whose pages exist already, so that no page fault falls into the timed region."""
    return np.ones(samples, np.int64)


def _raise_on(status: int) -> None:
    if status != 0:
        raise CallError(status)


class Call:
    """A prepared collective. Keeps alive what its spec points to."""

    def __init__(self, handle: int | None, keep: Sequence[object] = ()) -> None:
        if not handle:
            raise ValueError("the native core has no such call")
        self._handle = handle
        self._keep = tuple(keep)

    @classmethod
    def mpi(cls, spec: MpiSpec) -> Call:
        """One MPI collective on fixed buffers."""
        return cls(_core.busbw_mpi_call(ctypes.byref(spec)))

    @classmethod
    def nccl(cls, spec: NcclSpec, keep: Sequence[object]) -> Call:
        """One NCCL collective on fixed buffers; ``keep`` holds the function table."""
        return cls(_core.busbw_nccl_call(ctypes.byref(spec)), keep)

    @classmethod
    def null(cls) -> Call:
        """A call that does nothing."""
        return cls(_core.busbw_null_call())

    def issue(self, slot: int = 0) -> None:
        """Issue once, untimed."""
        _raise_on(_core.busbw_issue(self._handle, slot))

    def time_host(self, lead: int, samples: int, k: int) -> Int64Array:
        """Nanoseconds of ``samples`` times ``k`` back-to-back blocking calls, behind ``lead`` untimed."""
        elapsed = _touched(samples)
        _raise_on(_core.busbw_time_host(self._handle, lead, samples, k, elapsed.ctypes.data))
        return elapsed

    def time_events(self, stream: Stream, lead: int, samples: int, k: int) -> tuple[Int64Array, Int64Array]:
        """(elapsed, issue) nanoseconds of each sample: stream time by events, host time of issuing."""
        elapsed, issue = _touched(samples), _touched(samples)
        _raise_on(
            _core.busbw_time_events(
                self._handle, ctypes.byref(stream), lead, samples, k, elapsed.ctypes.data, issue.ctypes.data
            )
        )
        return elapsed, issue

    def time_loop(self, stream: Stream | None, calls: int) -> int:
        """Host nanoseconds of ``calls`` calls and their completion: one clock pair, as in nccl-tests."""
        elapsed = ctypes.c_int64()
        pointer = ctypes.byref(stream) if stream is not None else None
        _raise_on(_core.busbw_time_loop(self._handle, pointer, calls, ctypes.byref(elapsed)))
        return elapsed.value

    def close(self) -> None:
        """Free the native object."""
        if self._handle:
            _core.busbw_call_free(self._handle)
            self._handle = 0


def stream_wait(stream: Stream) -> None:
    """Wait until everything enqueued on the stream has run."""
    _raise_on(_core.busbw_stream_wait(ctypes.byref(stream)))
