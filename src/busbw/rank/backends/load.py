"""Compute and memory load beside a collective: on CPU ranks a thread of the rank, on GPUs a second stream.

Pieces of work take about 100 us, as a wave of a matrix product does, so the load lets go of what it holds
that often. They are queued ahead and wait for nobody: where a collective gets no multiprocessor before a
piece has ended, both go on then.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from busbw.errors import SiteError
from busbw.machine.native.core import CudaTable, Stream
from busbw.machine.native.cuda import (
    ATTRIBUTE_MOST_SHARED_MEMORY,
    ATTRIBUTE_MULTIPROCESSOR_COUNT,
    CudaDriver,
)
from busbw.machine.native.load import DeviceLoad, HostLoad, Worker
from busbw.model.neighbour import MEMORY, Neighbour
from busbw.rank.backends.base import PreparedCase
from busbw.rank.backends.gpu_ahead import kernels

PIECE_NS: Final = 100_000
GIGA: Final = 1e9
_UNITS: Final = {MEMORY: "GB/s"}  # read and written; else:
_FLOPS: Final = "GFLOP/s"
_PAUSE_NS: Final = 50_000

_HOST_TURNS: Final = 30_000  # about PIECE_NS of one core
_HOST_FLOP_PER_TURN: Final = 16
_HOST_PIECE_BYTES: Final = 2**18
_HOST_MEMORY_BYTES: Final = 2**27  # beyond most caches

# As native/load_device.hpp has them.
_DEVICE_BYTES: Final = {MEMORY: 2**28}
_SINK_BYTES: Final = 256  # of a result that nobody writes
_FLOP_PER_TURN: Final = 2 * 8 * 16  # of a thread
_BYTES_PER_TURN: Final = 2 * 4 * 16
_THREADS: Final = {MEMORY: 1024}
_THREADS_OF_COMPUTE: Final = 512
_DEPTH: Final = 16  # launches queued ahead, far longer than the host pauses
_TRIAL_LAUNCHES: Final = 20
_TRIAL_TURNS: Final = (16, 0)  # 0: as many as the trial before shows

T = TypeVar("T")


@dataclass(frozen=True)
class Load:
    """What a rank does beside a collective: pieces of ``work`` (in 10^9 of what ``unit`` counts)."""

    worker: Worker
    work: float
    unit: str
    how: str
    busy: bool
    keep: object = None  # what the worker's addresses point to

    def by_itself(self, seconds: float) -> float:
        """Work a second while no collective runs."""
        _, rate = self._during(lambda: time.sleep(seconds))
        return rate

    def beside(self, prepared: PreparedCase, take: Callable[[PreparedCase], T]) -> tuple[T, float]:
        """What ``take`` makes of the case under load, and the load's work a second meanwhile."""
        return self._during(lambda: take(prepared))

    def _during(self, act: Callable[[], T]) -> tuple[T, float]:
        self.worker.start()
        try:
            while self.busy and not self.worker.done and self.worker.is_running:
                time.sleep(PIECE_NS / 1e9)
            began, first = time.monotonic(), self.worker.done
            found = act()
            done, seconds = self.worker.done - first, time.monotonic() - began
        finally:
            self.worker.stop()
        return found, done * self.work / seconds


def host_load(neighbour: Neighbour) -> Load:
    """A thread beside the rank's own, wherever the rank may run."""
    cores = len(os.sched_getaffinity(0))
    where = f"on the {cores} cores of the rank" if cores > 1 else "on the rank's only core"
    busy = "" if neighbour.share == 1 else f", busy {100 * neighbour.share:.3g} % of the time"
    spec = HostLoad(piece=_HOST_TURNS, busy_share=neighbour.share, pause_ns=PIECE_NS)
    work, memory = _HOST_TURNS * _HOST_FLOP_PER_TURN, None
    if neighbour.what == MEMORY:
        memory = np.ones(_HOST_MEMORY_BYTES, np.uint8)
        spec.piece, spec.memory, spec.memory_bytes = _HOST_PIECE_BYTES, memory.ctypes.data, memory.nbytes
        work = 2 * _HOST_PIECE_BYTES
    return Load(
        worker=Worker(spec),
        work=work / GIGA,
        unit=_UNITS.get(neighbour.what, _FLOPS),
        how=f"a thread a rank, {where}{busy}",
        busy=neighbour.share > 0,
        keep=memory,
    )


def stream_priority(neighbours: tuple[Neighbour, ...]) -> int:
    """Of the collectives' stream: above a neighbour's of low priority, which has 0."""
    return -1 if any(each.priority == "low" for each in neighbours) else 0


def device_load(neighbour: Neighbour, driver: CudaDriver, device: int, beside_priority: int) -> Load:
    """Launches of one of our kernels. Raises SiteError where the GPU has fewer multiprocessors."""
    total = driver.device_attribute(ATTRIBUTE_MULTIPROCESSOR_COUNT, device)
    wanted = round(neighbour.share * total) if neighbour.sms is None else neighbour.sms
    if wanted > total:
        raise SiteError(
            f"--beside {neighbour.text}: {driver.device_name(device)} has {total} multiprocessors",
            hint=f"give sms={total} or fewer",
        )
    kernel = driver.module_function(kernels(driver), f"busbw_{neighbour.what}_kernel")
    size_bytes = _DEVICE_BYTES.get(neighbour.what, _SINK_BYTES)
    buffer = driver.mem_alloc(size_bytes)
    stream = driver.stream_create(0 if neighbour.priority == "low" else beside_priority)
    driver.memset(buffer, 0, size_bytes, stream)
    # What computes takes a multiprocessor's shared memory whole, as matrix products do: no other block fits.
    shared = 0 if neighbour.what == MEMORY else driver.device_attribute(ATTRIBUTE_MOST_SHARED_MEMORY, device)
    driver.allow_shared(kernel, shared)
    launches = _Launches(driver, kernel, stream, buffer, max(1, wanted), neighbour.what, shared)
    turns = launches.turns() if wanted else 0
    cuda = CudaTable(event_record=driver.address("cuEventRecord"), event_query=driver.address("cuEventQuery"))
    depth = _DEPTH if wanted else 1  # nothing takes no time: as many launches a second as of work
    events = (ctypes.c_void_p * depth)(*(driver.event_create() for _ in range(depth)))
    spec = DeviceLoad(
        stream=Stream(cuda=ctypes.pointer(cuda), stream=stream, events=events),
        launch_kernel=driver.address("cuLaunchKernel"),
        function=kernel,
        buffer=buffer,
        turns=turns,
        blocks=launches.blocks,
        threads=launches.threads,
        shared_bytes=shared if wanted else 0,
        depth=depth,
        pause_ns=_PAUSE_NS if wanted else PIECE_NS,
    )
    context = driver.primary_context_retain(device)
    per_turn = _BYTES_PER_TURN if neighbour.what == MEMORY else _FLOP_PER_TURN
    return Load(
        worker=Worker(spec, lambda: driver.set_current_context(context)),
        work=launches.blocks * launches.threads * turns * per_turn / GIGA,
        unit=_UNITS.get(neighbour.what, _FLOPS),
        how=f"launches of {PIECE_NS / 1000:.0f} us on {wanted} of {total} multiprocessors,"
        f" stream of {neighbour.priority} priority"
        if wanted
        else "empty launches",
        busy=wanted > 0,
        keep=(cuda, events),
    )


@dataclass(frozen=True)
class _Launches:
    """How a kernel is launched."""

    driver: CudaDriver
    kernel: int
    stream: int
    buffer: int
    blocks: int
    what: str
    shared: int

    @property
    def threads(self) -> int:
        """Of a block."""
        return _THREADS.get(self.what, _THREADS_OF_COMPUTE)

    def turns(self) -> int:
        """As many as take PIECE_NS on this GPU, which stands still else."""
        turns = 1
        for trial in _TRIAL_TURNS:
            turns = trial or turns
            self._run(turns, 1)
            began = time.monotonic_ns()
            self._run(turns, _TRIAL_LAUNCHES)
            each_ns = (time.monotonic_ns() - began) / _TRIAL_LAUNCHES
            turns = max(1, round(turns * PIECE_NS / each_ns))
        return turns

    def _run(self, turns: int, launches: int) -> None:
        for number in range(launches):
            arguments = [ctypes.c_uint64(each) for each in (self.buffer, turns, number * turns)]
            grid, block = (self.blocks, 1, 1), (self.threads, 1, 1)
            self.driver.launch(self.kernel, grid, block, self.stream, arguments, shared_bytes=self.shared)
        self.driver.stream_synchronize(self.stream)
