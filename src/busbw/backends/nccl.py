"""NCCL collectives on GPU memory: one GPU and one stream a rank, one communicator for the whole run."""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING, Final

import numpy as np

from busbw._native import core
from busbw._native.cuda import CudaDriver
from busbw._native.nccl import NcclLibrary, load_nccl
from busbw.backends.base import CallFailed, CheckOutcome, Identity, Look
from busbw.backends.buffers import BufferPair, CaseBuffers
from busbw.backends.device_memory import DeviceMemory
from busbw.errors import SiteError
from busbw.model.case import Case
from busbw.model.collective import Placement
from busbw.units import format_size

if TYPE_CHECKING:
    from busbw.model.plan import Plan
    from busbw.world.base import World

MAX_SAMPLES_PER_LOOK: Final = 1024
# An allowance for what the driver, the check kernels and NCCL's own buffers take beside ours; not measured.
RESERVE_BYTES: Final = 2 * 2**30
# Large enough that the GPU is the limit: at 8 bytes the host's launch path is, and hides half of the cost
# (4 x H200, NCCL 2.28.9: 2.1 us appear at 8 bytes, 4.2 us at 16 MiB).
_PROBE_BYTES: Final = 4 * 2**20
_PROBE_ROUNDS: Final = 9
_PROBE_CALLS: Final = 50
_PROBE_K: Final = 25
# Below this an estimate is noise: less was never seen on H100 and H200.
_LEAST_EVENT_COST_NS: Final = 2000.0


class NcclCase:
    """One case on NCCL."""

    def __init__(self, buffers: CaseBuffers, call: core.Call, stream: core.Stream, errors: _Texts) -> None:
        self.slots = buffers.slots
        self._buffers = buffers
        self._call = call
        self._stream = stream
        self._errors = errors

    def load(self, seed: int, slot: int) -> None:
        """See PreparedCase."""
        self._buffers.load(seed, slot)

    def check(self, seed: int, slot: int) -> CheckOutcome:
        """See PreparedCase."""
        return self._buffers.check(seed, slot)

    def run(self, slot: int, calls: int = 1) -> None:
        """See PreparedCase."""
        with self._errors:
            for _ in range(calls):
                self._call.issue(slot)
            core.stream_wait(self._stream)

    def time(self, lead: int, samples: int, k: int) -> Look:
        """See PreparedCase."""
        with self._errors:
            elapsed, issue = self._call.time_events(self._stream, lead, samples, k)
        return Look(elapsed, issue)

    def time_loop(self, calls: int) -> int:
        """As nccl-tests times, for benchmarks: host nanoseconds of ``calls`` calls and their completion."""
        with self._errors:
            return self._call.time_loop(self._stream, calls)

    def close(self) -> None:
        """See PreparedCase."""
        self._call.close()


class NcclBackend:
    """NCCL on this rank's GPU. Made in two steps, so that what fails on one rank alone fails before the
    others wait for it: the constructor is local, ``connect`` is collective.
    """

    name = "nccl"
    max_samples_per_look = MAX_SAMPLES_PER_LOOK

    def __init__(self, plan: Plan, local_rank: int) -> None:
        self._driver = CudaDriver()
        self._driver.init()
        self._device = self._driver.device(_ordinal(self._driver.device_count(), local_rank))
        self._driver.set_current_context(self._driver.primary_context_retain(self._device))
        self._nccl = load_nccl(plan.nccl_path or None)
        _require_memory(self._driver, plan.buffer_bytes)
        self._rotate = plan.rotate
        self._stream = self._driver.stream_create()
        self.pair = BufferPair.allocate(
            DeviceMemory(self._driver, self._device, self._stream), plan.buffer_bytes
        )
        self._tables = _Tables(self._driver, self._nccl)
        self._interrupt = ctypes.c_int32(0)
        self._events = (ctypes.c_void_p * (MAX_SAMPLES_PER_LOOK + 1))(
            *(self._driver.event_create() for _ in range(MAX_SAMPLES_PER_LOOK + 1))
        )
        self._comm = 0
        self._rank, self._size = 0, 1
        self._warm_for: tuple[str, str, str] | None = None
        self.timing_cost_ns = 0.0
        self.identity = self._identify({})

    def connect(self, world: World) -> None:
        """Make the communicator over the world and learn what an event costs on its stream."""
        self._rank, self._size = world.rank, world.size
        unique_id = world.broadcast(self._nccl.unique_id() if world.rank == 0 else None)
        world.barrier()
        start = time.monotonic_ns()
        self._comm = self._nccl.comm_init(world.size, unique_id, world.rank)
        created_ns = time.monotonic_ns() - start
        self.timing_cost_ns = self._event_cost_ns(world)
        self.identity = self._identify({"communicator_ns": created_ns, "event_cost_ns": self.timing_cost_ns})

    def prepare(self, case: Case) -> NcclCase:
        """Lay the case out on this rank."""
        buffers = CaseBuffers.of(self.pair, case, self._rank, self._size, rotate=self._rotate)
        kind = (case.collective, case.dtype, case.op)
        if self._warm_for != kind:
            self.pair.warm(case, self._rank, self._size)
            self._warm_for = kind
        spec = self._spec(case, buffers)
        call = core.Call.nccl(spec, (self._tables, spec))
        return NcclCase(buffers, call, self._native_stream(), _Texts(self._driver, self._nccl))

    def interrupt(self) -> None:
        """End a wait of the native loop in another thread."""
        self._interrupt.value = 1

    def close(self) -> None:
        """Destroy the communicator, then give back memory and stream."""
        if self._comm:
            self._nccl.comm_destroy(self._comm)
            self._comm = 0
        self.pair.release()
        self._driver.stream_destroy(self._stream)

    def _spec(self, case: Case, buffers: CaseBuffers) -> core.NcclSpec:
        op = case.reduce_op
        return core.NcclSpec(
            collective=case.row.number,
            datatype=case.data_type.number,
            op=op.number if op is not None else 0,
            root=max(case.root, 0),
            send_to=(self._rank + 1) % self._size,
            recv_from=(self._rank - 1) % self._size,
            nccl=ctypes.pointer(self._tables.nccl),
            comm=self._comm,
            stream=self._stream,
            send=buffers.send,
            recv=buffers.recv,
            count=buffers.shape.call_count,
            rotation=core.Rotation(buffers.stride_bytes, buffers.stride_bytes, buffers.slots),
        )

    def _native_stream(self) -> core.Stream:
        return core.Stream(
            cuda=ctypes.pointer(self._tables.cuda),
            nccl=ctypes.pointer(self._tables.nccl),
            comm=self._comm,
            stream=self._stream,
            events=self._events,
            interrupt=ctypes.pointer(self._interrupt),
            timeout_ns=0,
        )

    def _event_cost_ns(self, world: World) -> float:
        """Time that one event adds to a call: an all-reduce with an event after every call against one event
        every 25, alternated; the median over rounds.
        """
        size = min(_PROBE_BYTES, self.pair.size_bytes // 8 * 8)
        case = Case(0, "all_reduce", "float", "sum", -1, size, size, size // 4, Placement.OUT_OF_PLACE)
        probe = self.prepare(case)
        costs = np.empty(_PROBE_ROUNDS)
        for i in range(-1, _PROBE_ROUNDS):  # round -1 warms up
            world.barrier()
            every = probe.time(_PROBE_K, _PROBE_CALLS, 1).elapsed_ns
            seldom = probe.time(_PROBE_K, _PROBE_CALLS // _PROBE_K, _PROBE_K).elapsed_ns
            if i >= 0:
                costs[i] = every.mean() - seldom.mean() / _PROBE_K
        probe.close()
        return max(float(np.median(costs)), _LEAST_EVENT_COST_NS)

    def _identify(self, facts: dict[str, str | int | float]) -> Identity:
        driver, device = self._driver, self._device
        return Identity(
            library="NCCL",
            version=self._nccl.version,
            path=self._nccl.path,
            device=driver.device_name(device),
            device_uuid=driver.device_uuid(device),
            facts={
                "pci_bus_id": driver.device_pci_bus_id(device),
                "cuda_driver_version": driver.driver_version(),
                "cuda_driver_path": driver.path,
                **facts,
            },
        )


class _Tables:
    """Function addresses for the native loop."""

    def __init__(self, driver: CudaDriver, nccl: NcclLibrary) -> None:
        self.nccl = core.NcclTable(
            *(
                nccl.address(name)
                for name in (
                    "ncclAllReduce",
                    "ncclAllGather",
                    "ncclSend",
                    "ncclRecv",
                    "ncclGroupStart",
                    "ncclGroupEnd",
                    "ncclCommGetAsyncError",
                )
            )
        )
        self.cuda = core.CudaTable(
            *(driver.address(name) for name in ("cuEventRecord", "cuEventQuery", "cuEventElapsedTime"))
        )


class _Texts:
    """Turns a status of the native core into an error in the failing library's own words."""

    def __init__(self, driver: CudaDriver, nccl: NcclLibrary) -> None:
        self._driver = driver
        self._nccl = nccl

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, core.CallError):
            return
        if error.gpu_library == "nccl":
            raise CallFailed(f"NCCL call failed: {self._nccl.error_text(error.gpu_code)}") from error
        if error.gpu_library == "cuda":
            raise CallFailed(f"CUDA call failed: {self._driver.error_text(error.gpu_code)}") from error
        raise CallFailed("the wait for the GPU was interrupted") from error


def _ordinal(visible: int, local_rank: int) -> int:
    """Which visible GPU a rank takes. A launcher that binds shows each rank its own GPU only, as number 0."""
    if visible == 1:
        return 0
    if local_rank >= visible:
        raise SiteError(
            f"rank {local_rank} of this host has no GPU: {visible} visible",
            hint="start one rank per GPU on each host, or check CUDA_VISIBLE_DEVICES",
        )
    return local_rank


def _require_memory(driver: CudaDriver, buffer_bytes: int) -> None:
    free, total = driver.memory_info()
    needed = 2 * buffer_bytes + RESERVE_BYTES
    if needed > free:
        fits = max(0, (free - RESERVE_BYTES) // 2)
        raise SiteError(
            f"too little GPU memory: send and receive buffers of {format_size(buffer_bytes)} and"
            f" {format_size(RESERVE_BYTES)} for NCCL need {format_size(needed)}, {free / 2**30:.1f} GiB of"
            f" {total / 2**30:.1f} GiB are free",
            hint=f"the largest size that fits is -e {fits // 2**20}M",
        )
