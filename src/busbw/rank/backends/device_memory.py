"""Memory that a GPU reaches, filled and checked in place by kernels that the driver compiles from PTX."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from busbw.errors import SiteError
from busbw.machine.native import core
from busbw.machine.native.cuda import (
    ATTRIBUTE_CAN_MAP_HOST_MEMORY,
    ATTRIBUTE_MANAGED_MEMORY,
    ATTRIBUTE_MULTIPROCESSOR_COUNT,
    CudaDriver,
)
from busbw.machine.native.nccl import REGISTER_VERSION, NcclLibrary
from busbw.rank.backends.buffers import POISON_BYTE, Uint8Array
from busbw.rank.backends.gpu_ahead import kernels

if TYPE_CHECKING:
    from busbw.model.plan import CallOptions

_THREADS: Final = 256
_BLOCKS_PER_MULTIPROCESSOR: Final = 8


@dataclass(frozen=True)
class Allocator:
    """Where buffers come from. ``name`` is the library's call, for the record; addresses are the GPU's."""

    name: str
    allocate: Callable[[int], int]
    release: Callable[[int], None]


def choose_allocator(options: CallOptions, driver: CudaDriver, device: int, nccl: NcclLibrary) -> Allocator:
    """The allocator that the options ask for. Raises SiteError where the GPU has no such memory.

    nccl-tests takes ncclMemAlloc from NCCL 2.19 on, whatever its options (AllocateBuffs in common.cu). It
    decides what NCCL can register, by -R or by itself while a graph is captured; there we do the same.
    Elsewhere buffers are what applications have: memory of the driver.
    """
    if options.memory == "nccl" and nccl.version_code < REGISTER_VERSION:
        raise SiteError(f"NCCL {nccl.version} has no ncclMemAlloc", hint="leave out --buffers")
    if options.memory == "managed":
        _require_attribute(driver, device, ATTRIBUTE_MANAGED_MEMORY, "managed memory")
        return Allocator("cuMemAllocManaged", driver.mem_alloc_managed, driver.mem_free)
    if options.memory == "host":
        _require_attribute(driver, device, ATTRIBUTE_CAN_MAP_HOST_MEMORY, "mapped host memory")
        return _pinned_host(driver)
    wanted = options.memory == "nccl" or options.register or options.graph
    if wanted and nccl.version_code >= REGISTER_VERSION:
        return Allocator("ncclMemAlloc", nccl.mem_alloc, nccl.mem_free)
    return Allocator("cuMemAlloc", driver.mem_alloc, driver.mem_free)


def _require_attribute(driver: CudaDriver, device: int, attribute: int, what: str) -> None:
    if not driver.device_attribute(attribute, device):
        raise SiteError(f"{driver.device_name(device)} has no {what}", hint="leave out --buffers")


def _pinned_host(driver: CudaDriver) -> Allocator:
    """Page-locked host memory by the addresses at which the GPU sees it."""
    host_of: dict[int, int] = {}

    def allocate(size_bytes: int) -> int:
        host = driver.host_alloc(size_bytes)
        address = driver.host_device_address(host)
        host_of[address] = host
        return address

    return Allocator("cuMemHostAlloc", allocate, lambda address: driver.host_free(host_of.pop(address)))


class DeviceMemory:
    """Memory that the current context's GPU reaches. Every method waits for its own work."""

    # The driver's pages: buffers lie in them as an allocation does, for transfers, registration and windows.
    alignment_bytes = 2 * 2**20

    def __init__(self, driver: CudaDriver, device: int, stream: int, allocator: Allocator) -> None:
        self._driver = driver
        self._stream = stream
        self._allocator = allocator
        module = kernels(driver)
        self._fill = driver.module_function(module, "busbw_fill_kernel")
        self._check = driver.module_function(module, "busbw_check_kernel")
        self._grid = (
            driver.device_attribute(ATTRIBUTE_MULTIPROCESSOR_COUNT, device) * _BLOCKS_PER_MULTIPROCESSOR
        )
        self._result = driver.mem_alloc(ctypes.sizeof(core.CheckResult))

    def allocate(self, size_bytes: int) -> int:
        """See Memory; the GPU's first touch puts managed memory onto it, other memory is backed already."""
        address = self._allocator.allocate(size_bytes)
        self.overwrite(address, size_bytes)
        return address

    def release(self, address: int) -> None:
        self._allocator.release(address)

    def overwrite(self, address: int, size_bytes: int, byte: int = POISON_BYTE) -> None:
        if size_bytes:
            self._driver.memset(address, byte, size_bytes, self._stream)
            self._driver.stream_synchronize(self._stream)

    def read(self, address: int, size_bytes: int) -> Uint8Array:
        host = np.empty(size_bytes, np.uint8)
        if size_bytes:
            self._driver.stream_synchronize(self._stream)
            self._driver.copy_to_host(host.ctypes.data, address, size_bytes)
        return host

    def write(self, address: int, data: Uint8Array) -> None:
        if data.nbytes:
            self._driver.copy_to_device(address, data.ctypes.data, data.nbytes)
            self._driver.stream_synchronize(self._stream)

    def fill(self, address: int, pattern: core.Pattern, *regions: core.Region) -> None:
        for region in regions:
            self._launch(self._fill, [ctypes.c_uint64(address), pattern, region], region.count)
        self._driver.stream_synchronize(self._stream)

    def check(self, address: int, pattern: core.Pattern, regions: Iterable[core.Region]) -> core.CheckResult:
        """See Memory; the regions' kernels run one after another on the stream and add to one result."""
        result = core.new_check_result()
        size = ctypes.sizeof(result)
        # On the stream, before the kernels: a copy from pageable memory may return before it has arrived.
        self._driver.memset(self._result, 0, size, self._stream)
        self._driver.memset(self._result + core.CheckResult.first_wrong.offset, 0xFF, 8, self._stream)
        for region in regions:
            arguments = [ctypes.c_uint64(address), pattern, region, ctypes.c_uint64(self._result)]
            self._launch(self._check, arguments, region.count)
        self._driver.stream_synchronize(self._stream)
        self._driver.copy_to_host(ctypes.addressof(result), self._result, size)
        return result

    def _launch(self, kernel: int, arguments: Sequence[object], count: int) -> None:
        if count:
            blocks = min(self._grid, -(-count // _THREADS))
            self._driver.launch(kernel, (blocks, 1, 1), (_THREADS, 1, 1), self._stream, arguments)
