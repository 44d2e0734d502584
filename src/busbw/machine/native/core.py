"""Typed access to ``libbusbw_core.so``: the timing loops, prepared calls, and the data to move and check.

A ctypes call here is a *look* (many calls of the collective) or a set-up step, never one iteration, so what
the binding costs does not show. The structures mirror ``native/core_api.h``; ``busbw_core_abi`` guards the
pair.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from busbw.errors import SiteError

CORE_ABI: Final = 15
LIBRARY_PATH: Final = Path(__file__).with_name("libbusbw_core.so")

# Statuses as in core_api.h.
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

    _fields_ = (("wrong", ctypes.c_uint64), ("first_wrong", ctypes.c_uint64), ("digest", ctypes.c_uint64))


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


_NCCL_FUNCTIONS: Final = {
    "all_reduce": "ncclAllReduce",
    "all_gather": "ncclAllGather",
    "reduce_scatter": "ncclReduceScatter",
    "broadcast": "ncclBroadcast",
    "reduce": "ncclReduce",
    "alltoall": "ncclAlltoAll",
    "gather": "ncclGather",
    "scatter": "ncclScatter",
    "send": "ncclSend",
    "recv": "ncclRecv",
    "group_start": "ncclGroupStart",
    "group_end": "ncclGroupEnd",
    "get_async_error": "ncclCommGetAsyncError",
}
_CUDA_FUNCTIONS: Final = {
    "event_record": "cuEventRecord",
    "event_query": "cuEventQuery",
    "event_elapsed_time": "cuEventElapsedTime",
    "memcpy_async": "cuMemcpyDtoDAsync_v2",
    "graph_launch": "cuGraphLaunch",
    "stream_wait_event": "cuStreamWaitEvent",
}


class NcclTable(ctypes.Structure):
    """Function addresses of the libnccl in use."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in _NCCL_FUNCTIONS)

    @classmethod
    def of(cls, address: Callable[[str], int], without: Collection[str]) -> NcclTable:
        """All but those that are not to be called."""
        return cls(**{name: address(of) for name, of in _NCCL_FUNCTIONS.items() if name not in without})


class CudaTable(ctypes.Structure):
    """Function addresses of the libcuda in use."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in _CUDA_FUNCTIONS)

    @classmethod
    def of(cls, address: Callable[[str], int]) -> CudaTable:
        """All of them."""
        return cls(**{name: address(of) for name, of in _CUDA_FUNCTIONS.items()})


class NcclSpec(ctypes.Structure):
    """A prepared NCCL call; see BusbwNcclSpec. ``arrays`` keeps its segments alive."""

    arrays: tuple[Int64Array, ...] = ()

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


# ---- the library -------------------------------------------------------------------------------------


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
            f"{LIBRARY_PATH} has interface {library.busbw_core_abi()}, this Python code needs {CORE_ABI}",
            hint="reinstall busbw so that both come from one build",
        )
    return library


_P = ctypes.c_void_p
_U64 = ctypes.c_uint64
_I64 = ctypes.c_int64
_SIGNATURES: Final = {
    "busbw_pattern_init": (
        ctypes.c_int32,
        (ctypes.POINTER(Pattern), _U64, ctypes.c_uint32, ctypes.c_int32, ctypes.c_int32),
    ),
    "busbw_fill": (ctypes.c_int32, (_P, ctypes.POINTER(Pattern), ctypes.POINTER(Region))),
    "busbw_check": (
        ctypes.c_int32,
        (_P, ctypes.POINTER(Pattern), ctypes.POINTER(Region), ctypes.POINTER(CheckResult)),
    ),
    "busbw_premul_scalar": (ctypes.c_int32, (ctypes.c_int32, ctypes.c_uint32, _P)),
    "busbw_scale": (
        ctypes.c_int32,
        (ctypes.c_int32, ctypes.c_int32, _P, _P, _I64, ctypes.c_uint32, ctypes.c_uint32),
    ),
    "busbw_mpi_user_function": (_P, (ctypes.c_int32, ctypes.c_int32, ctypes.c_int32)),
    "busbw_mpi_call": (_P, (ctypes.POINTER(MpiSpec),)),
    "busbw_mpi_parts": (_P, (_P, ctypes.c_int32, _P)),
    "busbw_mpi_sleeping": (_P, (_P, _P, _I64)),
    "busbw_nccl_parts": (_P, (_P, ctypes.c_int32, ctypes.POINTER(NcclTable))),
    "busbw_nccl_call": (_P, (ctypes.POINTER(NcclSpec),)),
    "busbw_graph_call": (_P, (ctypes.POINTER(CudaTable), _P, _P)),
    "busbw_null_call": (_P, ()),
    "busbw_call_free": (None, (_P,)),
    "busbw_issue": (ctypes.c_int32, (_P, _U64)),
    "busbw_time_host": (ctypes.c_int32, (_P, _U64, _U64, _U64, _P)),
    "busbw_time_events": (ctypes.c_int32, (_P, ctypes.POINTER(Stream), _U64, _U64, _U64, _P, _P)),
    "busbw_time_loop": (ctypes.c_int32, (_P, ctypes.POINTER(Stream), _U64, _P)),
    "busbw_time_isolated_host": (ctypes.c_int32, (_P, _P, _U64, _P, _P, _P)),
    "busbw_time_isolated_events": (ctypes.c_int32, (_P, _P, ctypes.POINTER(Stream), _U64, _P, _P, _P)),
    "busbw_time_lanes_host": (ctypes.c_int32, (_P, ctypes.c_int32, _P, _U64, _U64, _P, _P)),
    "busbw_time_lanes_events": (ctypes.c_int32, (_P, ctypes.c_int32, _U64, _U64, _P, _P, _P)),
    "busbw_progress_to": (None, (_P,)),
    "busbw_stream_wait": (ctypes.c_int32, (ctypes.POINTER(Stream),)),
}

_core = _load()


def exported(name: str, result: Any, *arguments: Any) -> Any:  # noqa: ANN401 (of ctypes)
    """The function of the native core, with its types."""
    function = getattr(_core, name)
    function.restype, function.argtypes = result, arguments
    return function


for _name, (_restype, _argtypes) in _SIGNATURES.items():
    exported(_name, _restype, *_argtypes)


def pattern(seed: int, ranks: int, dtype: int, op: int) -> Pattern:
    """The data of one check, the same on all ranks. Raises ValueError where type and operation have none."""
    out = Pattern()
    if _core.busbw_pattern_init(ctypes.byref(out), seed, ranks, dtype, op) != 0:
        raise ValueError(f"type {dtype} with operation {op} has no check data")
    return out


def fill(address: int, data: Pattern, region: Region) -> None:
    """Write a region of host memory."""
    _require_ok(_core.busbw_fill(address, ctypes.byref(data), ctypes.byref(region)))


def check(address: int, data: Pattern, region: Region, into: CheckResult) -> None:
    """Compare a region of host memory, adding to ``into``."""
    _require_ok(_core.busbw_check(address, ctypes.byref(data), ctypes.byref(region), ctypes.byref(into)))


def premul_scalar(dtype: int, rank: int) -> bytes:
    """What a rank's data are multiplied by before a premultiplied sum, in the element type."""
    out = (ctypes.c_uint8 * 8)()
    if _core.busbw_premul_scalar(dtype, rank, out) != 0:
        raise ValueError(f"unknown element type {dtype}")
    return bytes(out)


def scale(dtype: int, op: int, address: int, count: int, rank: int, ranks: int) -> None:
    """Do in place what a call with this reduction does beside MPI's sum; see ``native/user_ops.hpp``."""
    _require_ok(_core.busbw_scale(dtype, op, address, address, count, rank, ranks))


def mpi_user_function(dtype: int, op: int, *, large: bool) -> int:
    """Address of the reduction that MPI calls for a type it does not have; ``large``: with 64-bit counts.

    Raises ValueError where there is none.
    """
    address = _core.busbw_mpi_user_function(dtype, op, large)
    if not address:
        raise ValueError(f"no reduction for type {dtype} and operation {op}")
    return int(address)


def new_check_result() -> CheckResult:
    """A result that has seen nothing yet."""
    return CheckResult(0, NO_WRONG_ELEMENT, 0)


def count_progress(address: int | None) -> None:
    """Count this process's calls in the four 64-bit words at ``address``: entered, enqueued, completed, and
    what it does with them (``CallMode`` of native/progress.hpp). None: nowhere.
    """
    _core.busbw_progress_to(address)


def _require_ok(status: int) -> None:
    if status != 0:
        raise ValueError(f"the native core refused its arguments (status {status})")


@dataclass(frozen=True)
class CallError(Exception):
    """A library's own error code, or TIMED_OUT."""

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


def _address(values: Int64Array | None) -> int | None:
    return None if values is None else values.ctypes.data


def _raise_on(status: int) -> None:
    if status != 0:
        raise CallError(status)


def _taken(parts: Sequence[Call]) -> ctypes.Array[ctypes.c_void_p]:
    """The parts' native objects, which another call deletes from now on."""
    handles = (ctypes.c_void_p * len(parts))(*(part.handle for part in parts))
    for part in parts:
        part.handle = 0
    return handles


class Call:
    """A prepared collective. Keeps alive what its spec points to. ``handle`` is the native object, for specs
    that hold one: the call has to live as long as they are used.
    """

    def __init__(self, handle: int | None, keep: Sequence[object] = ()) -> None:
        if not handle:
            raise ValueError("the native core has no such call")
        self.handle = handle
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
    def mpi_parts(cls, parts: Sequence[Call], wait: int) -> Call:
        """One call of parts that are all started before any is waited for; ``wait`` is the address of
        MPI_Wait. Takes the parts over.
        """
        return cls(_core.busbw_mpi_parts(_taken(parts), len(parts), wait))

    @classmethod
    def mpi_sleeping(cls, call: Call, test: int, pause_ns: int) -> Call:
        """The call, waited for asleep; ``test`` is the address of MPI_Test. Takes it over."""
        (taken,) = _taken([call])
        return cls(_core.busbw_mpi_sleeping(taken, test, pause_ns), call._keep)

    @classmethod
    def nccl_parts(cls, parts: Sequence[Call], nccl: NcclTable) -> Call:
        """One call of parts in one group. Takes the parts over."""
        keep = (nccl, *(part._keep for part in parts))
        return cls(_core.busbw_nccl_parts(_taken(parts), len(parts), ctypes.byref(nccl)), keep)

    @classmethod
    def graph(cls, cuda: CudaTable, graph_exec: int, stream: int) -> Call:
        """One launch of a captured CUDA graph; whoever captured it destroys it afterwards."""
        return cls(_core.busbw_graph_call(ctypes.byref(cuda), graph_exec, stream), (cuda,))

    @classmethod
    def null(cls) -> Call:
        """A call that does nothing."""
        return cls(_core.busbw_null_call())

    def issue(self, slot: int = 0) -> None:
        """Issue once, untimed."""
        _raise_on(_core.busbw_issue(self.handle, slot))

    def time_host(self, lead: int, samples: int, k: int) -> Int64Array:
        """Nanoseconds of ``samples`` times ``k`` back-to-back blocking calls, behind ``lead`` untimed."""
        elapsed = _touched(samples)
        _raise_on(_core.busbw_time_host(self.handle, lead, samples, k, elapsed.ctypes.data))
        return elapsed

    def time_events(self, stream: Stream, lead: int, samples: int, k: int) -> tuple[Int64Array, Int64Array]:
        """(elapsed, issue) nanoseconds of each sample: stream time by events, host time of issuing."""
        elapsed, issue = _touched(samples), _touched(samples)
        into = elapsed.ctypes.data, issue.ctypes.data
        _raise_on(_core.busbw_time_events(self.handle, ctypes.byref(stream), lead, samples, k, *into))
        return elapsed, issue

    def time_isolated_host(
        self, barrier: Call | None, samples: int, delay_ns: Int64Array | None
    ) -> tuple[Int64Array, Int64Array]:
        """Clock readings at entry and exit of single calls, each behind ``barrier`` and this rank's delay."""
        entry, left = _touched(samples), _touched(samples)
        delays, into = _address(delay_ns), (entry.ctypes.data, left.ctypes.data)
        before = None if barrier is None else barrier.handle
        _raise_on(_core.busbw_time_isolated_host(before, self.handle, samples, delays, *into))
        return entry, left

    def time_isolated_events(
        self, barrier: Call | None, stream: Stream, samples: int, delay_ns: Int64Array | None
    ) -> tuple[Int64Array, Int64Array]:
        """Stream time and host time of issuing of single calls, each behind ``barrier`` and the delay."""
        elapsed, issue = _touched(samples), _touched(samples)
        delays, into = _address(delay_ns), (elapsed.ctypes.data, issue.ctypes.data)
        calls = (None if barrier is None else barrier.handle, self.handle)
        _raise_on(_core.busbw_time_isolated_events(*calls, ctypes.byref(stream), samples, delays, *into))
        return elapsed, issue

    def time_loop(self, stream: Stream | None, calls: int) -> int:
        """Host nanoseconds of ``calls`` calls and their completion: one clock pair, as in nccl-tests."""
        elapsed = ctypes.c_int64()
        pointer = ctypes.byref(stream) if stream is not None else None
        _raise_on(_core.busbw_time_loop(self.handle, pointer, calls, ctypes.byref(elapsed)))
        return elapsed.value

    def close(self) -> None:
        """Free the native object."""
        if self.handle:
            _core.busbw_call_free(self.handle)
            self.handle = 0


def stream_wait(stream: Stream) -> None:
    """Wait until everything enqueued on the stream has run."""
    _raise_on(_core.busbw_stream_wait(ctypes.byref(stream)))


@dataclass(frozen=True)
class Lane:
    """Calls of one operation among several at once: ``calls`` in a round, from ``slot`` on. ``stream`` is
    there where calls enqueue.
    """

    call: Call
    calls: int
    slot: int = 0
    stream: Stream | None = None


def time_lanes_host(lanes: Sequence[Lane], test: int, lead: int, rounds: int) -> Rounds:
    """Rounds of blocking calls behind ``lead`` untimed ones; ``test`` is the address of MPI_Test. Raises
    CallError; also where a call cannot be started by itself.
    """
    begin, end = (_touched(len(lanes) * rounds).reshape(len(lanes), rounds) for _ in range(2))
    into = begin.ctypes.data, end.ctypes.data
    _raise_on(_core.busbw_time_lanes_host(_lanes(lanes), len(lanes), test, lead, rounds, *into))
    return Rounds(begin, end, end - begin)


def time_lanes_events(lanes: Sequence[Lane], lead: int, rounds: int) -> Rounds:
    """Rounds of calls that enqueue, each lane on a stream of its own. Raises CallError."""
    begin, end, issue = (_touched(len(lanes) * rounds).reshape(len(lanes), rounds) for _ in range(3))
    into = begin.ctypes.data, end.ctypes.data, issue.ctypes.data
    _raise_on(_core.busbw_time_lanes_events(_lanes(lanes), len(lanes), lead, rounds, *into))
    return Rounds(begin, end, issue)


def _lanes(lanes: Sequence[Lane]) -> ctypes.Array[LaneSpec]:
    rows = (LaneSpec * len(lanes))()
    for row, lane in zip(rows, lanes, strict=True):
        row.call, row.calls, row.slot = lane.call.handle, lane.calls, lane.slot
        if lane.stream is not None:
            row.stream = ctypes.pointer(lane.stream)
    return rows
