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
from busbw.model.neighbour import COMPUTE, MEMORY, Neighbour
from busbw.rank.backends.base import PreparedCase
from busbw.rank.backends.gpu_ahead import kernels

PIECE_NS: Final = 100_000
GIGA: Final = 1e9


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
_DEPTH: Final = 16  # launches queued ahead, far longer than the host pauses
_PAUSE_NS: Final = 50_000
_TRIAL_LAUNCHES: Final = 20
_TRIAL_TURNS: Final = 16

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
    errors: AbstractContextManager[None] = field(default_factory=nullcontext)  # turns a failure into words

    def by_itself(self, seconds: float) -> float:
        """Work a second while no collective runs."""
        _, rate = self._during(lambda: time.sleep(seconds))
        return rate

    def beside(self, prepared: PreparedCase, take: Callable[[PreparedCase], T]) -> tuple[T, float]:
        """What ``take`` makes of the case under load, and the load's work a second meanwhile."""
        return self._during(lambda: take(prepared))

    def _during(self, act: Callable[[], T]) -> tuple[T, float]:
        with self.errors, self.worker:
            while self.busy and not self.worker.done and self.worker.is_running:
                time.sleep(PIECE_NS / 1e9)
            began, first = time.monotonic(), self.worker.done
            found = act()
            done, seconds = self.worker.done - first, time.monotonic() - began
        return found, done * self.work / seconds


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
    return Load(Worker(spec), kind.work / GIGA, kind.unit, how, busy=neighbour.share > 0, keep=memory)


def stream_priority(neighbours: tuple[Neighbour, ...]) -> int:
    """Of the collectives' stream: above a neighbour's of low priority, which has 0."""
    return -1 if any(each.priority == "low" for each in neighbours) else 0


def device_load(neighbour: Neighbour, driver: CudaDriver, device: int, beside_priority: int) -> Load:
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
    stream = driver.stream_create(0 if neighbour.priority == "low" else beside_priority)
    kernel = _Kernel.loaded(neighbour.what, max(1, wanted), driver, device, stream)
    turns = kernel.turns_of_a_piece()
    cuda = CudaTable(event_record=driver.address("cuEventRecord"), event_query=driver.address("cuEventQuery"))
    # What takes no time would be launched without end: as often as work is.
    depth, pause_ns = (_DEPTH, _PAUSE_NS) if wanted else (1, PIECE_NS)
    events = (ctypes.c_void_p * depth)(*(driver.event_create() for _ in range(depth)))
    spec = DeviceLoad(
        stream=Stream(cuda=ctypes.pointer(cuda), stream=stream, events=events),
        launch_kernel=driver.address("cuLaunchKernel"),
        function=kernel.function,
        buffer=kernel.buffer,
        turns=turns if wanted else 0,
        blocks=kernel.blocks,
        threads=kernel.kind.threads,
        shared_bytes=kernel.shared_bytes if wanted else 0,
        depth=depth,
        pause_ns=pause_ns,
    )
    context = driver.primary_context_retain(device)
    work = kernel.blocks * kernel.kind.threads * spec.turns * kernel.kind.turn_work / GIGA
    how = f"launches of {PIECE_NS / 1000:.0f} us on {wanted} of {total} multiprocessors, stream of"
    how = f"{how} {neighbour.priority} priority" if wanted else "launches of no work"
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
    def loaded(cls, what: str, blocks: int, driver: CudaDriver, device: int, stream: int) -> _Kernel:
        """With its memory."""
        kind = _KINDS[what]
        function = driver.module_function(kernels(driver), f"busbw_{what}_kernel")
        buffer = driver.mem_alloc(kind.device_bytes)
        driver.memset(buffer, 0, kind.device_bytes, stream)
        shared_bytes = driver.device_attribute(ATTRIBUTE_MOST_SHARED_MEMORY, device) if kind.fills else 0
        driver.allow_shared(function, shared_bytes)
        return cls(driver, kind, function, stream, buffer, blocks, shared_bytes)

    def turns_of_a_piece(self) -> int:
        """As many as take PIECE_NS. Also the kernel's first launch, which may wait for everything that runs:
        never beside a collective.
        """
        turns = _TRIAL_TURNS
        for _ in range(2):  # the first is short, and so mostly the host's time
            self._run(turns, 1)
            began = time.monotonic_ns()
            self._run(turns, _TRIAL_LAUNCHES)
            each_ns = (time.monotonic_ns() - began) / _TRIAL_LAUNCHES
            turns = max(1, round(turns * PIECE_NS / each_ns))
        return turns

    def _run(self, turns: int, launches: int) -> None:
        grid, block = (self.blocks, 1, 1), (self.kind.threads, 1, 1)
        for number in range(launches):
            arguments = [ctypes.c_uint64(each) for each in (self.buffer, turns, number * turns)]
            self.driver.launch(
                self.function, grid, block, self.stream, arguments, shared_bytes=self.shared_bytes
            )
        self.driver.stream_synchronize(self.stream)
