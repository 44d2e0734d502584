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
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np

from busbw.errors import SiteError
from busbw.machine.native.core import CudaTable, Stream
from busbw.machine.native.cublas import WORKSPACE_BYTES, Cublas
from busbw.machine.native.cuda import ATTRIBUTE_MOST_SHARED_MEMORY, ATTRIBUTE_MULTIPROCESSOR_COUNT, CudaDriver
from busbw.machine.native.load import DeviceLoad, HostLoad, Worker
from busbw.model.neighbour import COMPUTE, GEMM, MEMORY, Neighbour
from busbw.rank.backends.base import PreparedCase
from busbw.rank.backends.gpu_ahead import kernels
from busbw.rank.backends.graph import Graph

PIECE_NS: Final = 100_000


@dataclass(frozen=True)
class _Kind:
    """What a load is: what its work is counted in; of CPU ranks the size of a piece in turns or bytes, its
    work and its memory; of GPUs (native/load_device.hpp) a thread's work in a turn, the threads of a block,
    the memory, and whether a block takes a multiprocessor's shared memory whole, as matrix products do: then
    no other block fits.
    """

    unit: str
    piece: int
    work: int
    memory_bytes: int
    turn_work: int
    threads: int
    device_bytes: int
    fills: bool


_KINDS: Final = {
    # 30,000 turns are about 100 us of a core. The 256 bytes are for a result that is never written.
    COMPUTE: _Kind("GFLOP/s", 30_000, 30_000 * 16, 0, 2 * 8 * 16, 512, 256, fills=True),
    # Read and written. Memories are beyond most caches.
    MEMORY: _Kind("GB/s", 2**18, 2 * 2**18, 2**27, 2 * 4 * 16, 1024, 2**28, fills=False),
}
_DEPTH: Final = 8  # launches queued ahead, far longer than the host pauses
_PAUSE_NS: Final = 50_000
_TRIAL_LAUNCHES: Final = 20
_TILES: Final = 16  # of each block in a launch; see native/load_device.hpp
_TICKET_BYTES: Final = 256
# A block's shared memory has its number of a tile beside what it takes.
_OWN_SHARED_BYTES: Final = 1024


@dataclass(frozen=True)
class Load:
    """What a rank does beside a collective: pieces of ``work``, in what ``unit`` counts 10^9 of."""

    worker: Worker
    work: float
    unit: str
    how: str
    busy: bool
    keep: object = None  # what the worker's addresses point to
    errors: AbstractContextManager[None] = field(default_factory=nullcontext)  # turns a failure into words

    def by_itself(self, seconds: float) -> float:
        """Work a second while no collective runs."""
        return self._during(lambda: time.sleep(seconds))

    def beside(self, prepared: PreparedCase, take: Callable[[PreparedCase], object]) -> float:
        """``take`` the case under load; the load's work a second meanwhile."""
        return self._during(lambda: take(prepared))

    def _during(self, act: Callable[[], object]) -> float:
        with self.errors, self.worker:
            while self.busy and not self.worker.done[0] and self.worker.is_running:
                time.sleep(PIECE_NS / 1e9)
            first, began_ns = self.worker.done
            act()
            done, ended_ns = self.worker.done
        return (done - first) * self.work / max(1, ended_ns - began_ns)


def host_load(neighbour: Neighbour) -> Load:
    """A thread beside the rank's own, wherever the rank may run."""
    kind, cores = _KINDS[neighbour.what], len(os.sched_getaffinity(0))
    where = f"on the {cores} cores of the rank" if cores > 1 else "on the rank's only core"
    busy = "" if neighbour.share == 1 else f", busy {100 * neighbour.share:.3g} % of the time"
    memory = np.ones(kind.memory_bytes, np.uint8) if kind.memory_bytes else None
    spec = HostLoad(
        piece=kind.piece,
        memory=None if memory is None else memory.ctypes.data,
        memory_bytes=kind.memory_bytes,
        busy_share=neighbour.share,
    )
    how = f"a thread a rank, {where}{busy}"
    return Load(Worker(spec), kind.work, kind.unit, how, busy=neighbour.share > 0, keep=memory)


def device_load(neighbour: Neighbour, driver: CudaDriver, device: int) -> Load:
    """What is launched again and again in a stream of its own. Raises SiteError where the GPU has fewer
    multiprocessors, or the site no cuBLAS.
    """
    stream = driver.stream_create()
    if neighbour.what == GEMM:
        launched = _gemm(neighbour.n, driver, stream)
    else:
        launched = _kernel(neighbour, driver, device, stream)
    cuda = CudaTable.of(driver.address)
    graph = Graph(driver, cuda, stream, launched.enqueue)
    # What takes no time would be launched without end: as often as work is.
    depth, pause_ns = (_DEPTH, _PAUSE_NS) if launched.work else (1, PIECE_NS)
    events = (ctypes.c_void_p * depth)(*(driver.event_create() for _ in range(depth)))
    spec = DeviceLoad(
        stream=Stream(cuda=ctypes.pointer(cuda), stream=stream, events=events),
        call=graph.call.handle,
        depth=depth,
        pause_ns=pause_ns,
    )
    context = driver.primary_context_retain(device)
    worker = Worker(spec, lambda: driver.set_current_context(context))
    how = f"{launched.how}, in a stream of equal priority" if launched.work else "launches of no work"
    keep = (cuda, events, graph)
    return Load(worker, launched.work, launched.unit, how, busy=launched.work > 0, keep=keep)


@dataclass(frozen=True)
class _Launched:
    """What a launch does: ``work`` of ``unit``, once ``enqueue`` has put it on the stream."""

    enqueue: Callable[[], None]
    work: float
    unit: str
    how: str


def _gemm(n: int, driver: CudaDriver, stream: int) -> _Launched:
    """Products of matrices of random numbers: zeros need less power, and so have a higher clock."""
    cublas = Cublas()
    cublas.use(stream, driver.mem_alloc(WORKSPACE_BYTES))
    numbers = np.random.default_rng(0).standard_normal((n, n), np.float32).view(np.uint32) >> 16
    matrix = numbers.astype(np.uint16)  # bfloat16 is the upper half of a float32
    left, right, result = (driver.mem_alloc(matrix.nbytes) for _ in range(3))
    for address in (left, right):
        driver.copy_to_device(address, matrix.ctypes.data, matrix.nbytes)
    driver.synchronize()

    def enqueue() -> None:
        cublas.product(n, left, right, result)

    each_ns = _launch_ns(driver, stream, enqueue)
    how = f"cuBLAS {cublas.version}, products of {n} x {n} x {n} in bfloat16, {each_ns / 1000:.0f} us each"
    return _Launched(enqueue, 2 * n**3, _KINDS[COMPUTE].unit, how)


def _kernel(neighbour: Neighbour, driver: CudaDriver, device: int, stream: int) -> _Launched:
    """One of our kernels on some of the multiprocessors; on one, and without work, where it takes none."""
    total = driver.device_attribute(ATTRIBUTE_MULTIPROCESSOR_COUNT, device)
    wanted = round(neighbour.share * total) if neighbour.sms is None else neighbour.sms
    if wanted > total:
        raise SiteError(
            f"--beside {neighbour.text}: {driver.device_name(device)} has {total} multiprocessors",
            hint=f"give sms={total} or fewer",
        )
    kind = _KINDS[neighbour.what]
    function = driver.module_function(kernels(driver), f"busbw_{neighbour.what}_kernel")
    buffer = driver.mem_alloc(kind.device_bytes + _TICKET_BYTES)
    driver.memset(buffer, 0, kind.device_bytes + _TICKET_BYTES, stream)
    most = driver.device_attribute(ATTRIBUTE_MOST_SHARED_MEMORY, device)
    shared_bytes = most - _OWN_SHARED_BYTES if kind.fills and wanted else 0
    driver.allow_shared(function, shared_bytes)
    blocks, tiles = max(1, wanted), wanted * _TILES

    def enqueue(turns: int) -> None:
        """As many turns a tile."""
        values = (buffer, buffer + kind.device_bytes, turns, tiles)
        arguments = [ctypes.c_uint64(each) for each in values]
        grid, block = (blocks, 1, 1), (kind.threads, 1, 1)
        driver.launch(function, grid, block, stream, arguments, shared_bytes=shared_bytes)

    turns = 1
    for _ in range(3 if wanted else 1):  # the first is short, and so mostly the host's time
        each_ns = _launch_ns(driver, stream, partial(enqueue, turns))
        turns = max(1, round(turns * neighbour.length_ns / each_ns))
    work = tiles * kind.threads * turns * kind.turn_work
    how = f"launches of {neighbour.length_ns / 1000:.0f} us on {wanted} of {total} multiprocessors"
    return _Launched(partial(enqueue, turns), work, kind.unit, how)


def _launch_ns(driver: CudaDriver, stream: int, enqueue: Callable[[], None]) -> float:
    """How long a launch takes. The first one may wait for everything that runs: never beside a collective."""
    enqueue()
    driver.stream_synchronize(stream)
    began = time.monotonic_ns()
    for _ in range(_TRIAL_LAUNCHES):
        enqueue()
    driver.stream_synchronize(stream)
    return (time.monotonic_ns() - began) / _TRIAL_LAUNCHES
