"""GPU memory, filled and checked where it lies by kernels that the driver compiles from PTX."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Final

from busbw._native import core
from busbw._native.cuda import ATTRIBUTE_MULTIPROCESSOR_COUNT, CudaDriver
from busbw.backends.buffers import POISON_BYTE

_THREADS: Final = 256
_BLOCKS_PER_MULTIPROCESSOR: Final = 8


class DeviceMemory:
    """Memory of the current context's GPU. Every method waits for its own work."""

    def __init__(self, driver: CudaDriver, device: int, stream: int) -> None:
        self._driver = driver
        self._stream = stream
        module = driver.module_load(core.DEVICE_CODE_PATH.read_bytes() + b"\0")
        self._fill = driver.module_function(module, "busbw_fill_kernel")
        self._check = driver.module_function(module, "busbw_check_kernel")
        self._grid = (
            driver.device_attribute(ATTRIBUTE_MULTIPROCESSOR_COUNT, device) * _BLOCKS_PER_MULTIPROCESSOR
        )
        self._result = driver.mem_alloc(ctypes.sizeof(core.CheckResult))

    def allocate(self, size_bytes: int) -> int:
        """See Memory; device memory is backed from the start."""
        address = self._driver.mem_alloc(size_bytes)
        self.overwrite(address, size_bytes)
        return address

    def release(self, address: int) -> None:
        """See Memory."""
        self._driver.mem_free(address)

    def overwrite(self, address: int, size_bytes: int, byte: int = POISON_BYTE) -> None:
        """See Memory."""
        if size_bytes:
            self._driver.memset(address, byte, size_bytes, self._stream)
            self._driver.stream_synchronize(self._stream)

    def fill(self, address: int, pattern: core.Pattern, region: core.Region) -> None:
        """See Memory."""
        self._launch(self._fill, [ctypes.c_uint64(address), pattern, region], region.count)
        self._driver.stream_synchronize(self._stream)

    def check(self, address: int, pattern: core.Pattern, regions: Iterable[core.Region]) -> core.CheckResult:
        """See Memory; the regions' kernels run one after another on the stream and add to one result."""
        result = core.new_check_result()
        size = ctypes.sizeof(result)
        self._driver.copy_to_device(self._result, ctypes.addressof(result), size)
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
