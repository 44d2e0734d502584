"""The structures of ``native/core_api.h``, which ``core`` hands to the library, and what it gives back."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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


class Segments(ctypes.Structure):
    """Counts and offsets by peer, and the peers of a permute; see BusbwSegments. ``arrays`` keeps alive what
    the pointers point to.
    """

    arrays: tuple[Int64Array, ...] = ()

    _fields_ = (
        ("send_counts", ctypes.c_void_p),
        ("send_offsets", ctypes.c_void_p),
        ("recv_counts", ctypes.c_void_p),
        ("recv_offsets", ctypes.c_void_p),
        ("target", ctypes.c_int32),
        ("source", ctypes.c_int32),
    )


class MpiSpec(ctypes.Structure):
    """A prepared MPI call; see BusbwMpiSpec. ``arrays`` keeps its segments alive."""

    arrays: tuple[Int64Array, ...] = ()

    _fields_ = (
        ("collective", ctypes.c_int32),
        ("handle_bytes", ctypes.c_int32),
        ("large_count", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("ranks", ctypes.c_int32),
        ("root", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("scale_op", ctypes.c_int32),
        ("function", ctypes.c_void_p),
        ("in_place", ctypes.c_void_p),
        ("datatype", ctypes.c_uint64),
        ("op", ctypes.c_uint64),
        ("comm", ctypes.c_uint64),
        ("send", ctypes.c_void_p),
        ("recv", ctypes.c_void_p),
        ("send_count", ctypes.c_int64),
        ("recv_count", ctypes.c_int64),
        ("type_bytes", ctypes.c_uint64),
        ("rotation", Rotation),
        ("segments", Segments),
        ("no_peer", ctypes.c_int32),
        ("start_function", ctypes.c_void_p),
    )


class NcclTable(ctypes.Structure):
    """Function addresses of the libnccl in use."""

    _fields_ = tuple(
        (name, ctypes.c_void_p)
        for name in (
            "all_reduce",
            "all_gather",
            "reduce_scatter",
            "broadcast",
            "reduce",
            "alltoall",
            "gather",
            "scatter",
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
        (name, ctypes.c_void_p)
        for name in (
            *("event_record", "event_query", "event_elapsed_time", "memcpy_async", "graph_launch"),
            "stream_wait_event",
        )
    )


class NcclSpec(ctypes.Structure):
    """A prepared NCCL call; see BusbwNcclSpec."""

    _fields_ = (
        ("collective", ctypes.c_int32),
        ("datatype", ctypes.c_int32),
        ("op", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("ranks", ctypes.c_int32),
        ("root", ctypes.c_int32),
        ("aggregate", ctypes.c_int32),
        ("type_bytes", ctypes.c_int32),
        ("nccl", ctypes.POINTER(NcclTable)),
        ("cuda", ctypes.POINTER(CudaTable)),
        ("comm", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("send", ctypes.c_void_p),
        ("recv", ctypes.c_void_p),
        ("count", ctypes.c_uint64),
        ("rotation", Rotation),
        ("segments", Segments),
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


class LaneSpec(ctypes.Structure):
    """One of several calls at once; see BusbwLane."""

    _fields_ = (
        ("call", ctypes.c_void_p),
        ("stream", ctypes.POINTER(Stream)),
        ("calls", ctypes.c_uint64),
        ("slot", ctypes.c_uint64),
    )


@dataclass(frozen=True)
class Rounds:
    """When each lane's calls began and ended, [lane, round], in nanoseconds that compare within a round."""

    begin_ns: Int64Array
    end_ns: Int64Array
    issue_ns: Int64Array
