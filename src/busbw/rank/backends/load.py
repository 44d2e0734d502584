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
from typing import Final

import numpy as np

from busbw.errors import SiteError
from busbw.machine.native.core import CudaTable, Stream
from busbw.machine.native.cuda import (
    ATTRIBUTE_MOST_SHARED_MEMORY,
    ATTRIBUTE_MULTIPROCESSOR_COUNT,
    CudaDriver,
)
from busbw.machine.native.load import DeviceLoad, HostLoad, Worker
from busbw.model.neighbour import COMPUTE, MEMORY, Neighbour
from busbw.rank.backends.base import PreparedCase
from busbw.rank.backends.gpu_ahead import kernels

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
        pause_ns=PIECE_NS,
    )
    how = f"a thread a rank, {where}{busy}"
    return Load(Worker(spec), kind.work, kind.unit, how, busy=neighbour.share > 0, keep=memory)


def device_load(neighbour: Neighbour, driver: CudaDriver, device: int) -> Load:
    """Launches of one of our kernels; of no work where it takes no multiprocessor. Raises SiteError where the
    GPU has fewer multiprocessors.
    """
    total = driver.device_attribute(ATTRIBUTE_MULTIPROCESSOR_COUNT, device)
    wanted = round(neighbour.share * total) if neighbour.sms is None else neighbour.sms
    if wanted > total:
        raise SiteError(
            f"--beside {neighbour.text}: {driver.device_name(device)} has {total} multiprocessors",
            hint=f"give sms={total} or fewer",
        )
    kernel = _Kernel.loaded(neighbour.what, max(1, wanted), driver, device)
    turns = kernel.turns_in(neighbour.length_ns)
    cuda = CudaTable.of(driver.address)
    # What takes no time would be launched without end: as often as work is.
    depth, pause_ns = (_DEPTH, _PAUSE_NS) if wanted else (1, PIECE_NS)
    events = (ctypes.c_void_p * depth)(*(driver.event_create() for _ in range(depth)))
    spec = DeviceLoad(
        stream=Stream(cuda=ctypes.pointer(cuda), stream=kernel.stream, events=events),
        launch_kernel=driver.address("cuLaunchKernel"),
        function=kernel.function,
        buffer=kernel.buffer,
        tickets=kernel.tickets,
        turns=turns,
        tiles=kernel.tiles if wanted else 0,
        blocks=kernel.blocks,
        threads=kernel.kind.threads,
        shared_bytes=kernel.shared_bytes if wanted else 0,
        depth=depth,
        pause_ns=pause_ns,
    )
    context = driver.primary_context_retain(device)
    work = spec.tiles * kernel.kind.threads * turns * kernel.kind.turn_work
    where = f"{wanted} of {total} multiprocessors, in a stream of equal priority"
    how = f"launches of {neighbour.length_ns / 1000:.0f} us on {where}" if wanted else "launches of no work"
    worker = Worker(spec, lambda: driver.set_current_context(context))
    return Load(worker, work, kernel.kind.unit, how, busy=wanted > 0, keep=(cuda, events))


@dataclass(frozen=True)
class _Kernel:
    """A kernel that loads a GPU, and how it is launched."""

    driver: CudaDriver
    kind: _Kind
    function: int
    stream: int
    buffer: int
    blocks: int
    shared_bytes: int

    @classmethod
    def loaded(cls, what: str, blocks: int, driver: CudaDriver, device: int) -> _Kernel:
        """With its memory, and a stream of its own."""
        kind, stream = _KINDS[what], driver.stream_create()
        function = driver.module_function(kernels(driver), f"busbw_{what}_kernel")
        size_bytes = kind.device_bytes + _TICKET_BYTES
        buffer = driver.mem_alloc(size_bytes)
        driver.memset(buffer, 0, size_bytes, stream)
        most = driver.device_attribute(ATTRIBUTE_MOST_SHARED_MEMORY, device)
        shared_bytes = most - _OWN_SHARED_BYTES if kind.fills else 0
        driver.allow_shared(function, shared_bytes)
        return cls(driver, kind, function, stream, buffer, blocks, shared_bytes)

    @property
    def tickets(self) -> int:
        """Address of the tiles taken, behind the buffer."""
        return self.buffer + self.kind.device_bytes

    @property
    def tiles(self) -> int:
        """Of a launch."""
        return self.blocks * _TILES

    def turns_in(self, length_ns: int) -> int:
        """As many turns a tile as make a launch last so long. Also the kernel's first launch, which may wait
        for everything that runs: never beside a collective.
        """
        turns = 1
        for _ in range(3):  # the first is short, and so mostly the host's time
            self._run(turns, 1)
            began = time.monotonic_ns()
            self._run(turns, _TRIAL_LAUNCHES)
            each_ns = (time.monotonic_ns() - began) / _TRIAL_LAUNCHES
            turns = max(1, round(turns * length_ns / each_ns))
        return turns

    def _run(self, turns: int, launches: int) -> None:
        grid, block = (self.blocks, 1, 1), (self.kind.threads, 1, 1)
        for number in range(launches):
            values = (self.buffer, self.tickets, turns, self.tiles, number * self.tiles)
            arguments = [ctypes.c_uint64(each) for each in values]
            self.driver.launch(
                self.function, grid, block, self.stream, arguments, shared_bytes=self.shared_bytes
            )
        self.driver.stream_synchronize(self.stream)
