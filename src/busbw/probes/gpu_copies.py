"""How fast one GPU exchanges memory with its host: page-locked copies, by the driver, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from busbw._native.cuda import DRIVER_LIBRARY, CudaDriver

_COPY_BYTES: Final = 256 << 20  # some milliseconds at PCIe rates: the clock and the call do not count
_ROUNDS: Final = 5


def copy_rates(local_rank: int, *, library: str = DRIVER_LIBRARY) -> dict[str, float]:
    """``from host to GPU`` and ``from GPU to host`` in GB/s, the best of some rounds, for the GPU that a rank
    takes. Takes 256 MiB on both sides meanwhile. Raises SiteError with the driver's words.
    """
    driver = CudaDriver(library)
    driver.init()
    ordinal = 0 if driver.device_count() == 1 else local_rank
    device = driver.device(ordinal)
    driver.set_current_context(driver.primary_context_retain(device))
    host = driver.host_alloc(_COPY_BYTES)
    gpu = driver.mem_alloc(_COPY_BYTES)
    try:
        return {
            "from host to GPU": _best(driver, lambda: driver.copy_to_device(gpu, host, _COPY_BYTES)),
            "from GPU to host": _best(driver, lambda: driver.copy_to_host(host, gpu, _COPY_BYTES)),
        }
    finally:
        driver.mem_free(gpu)
        driver.host_free(host)
        driver.primary_context_release(device)


def _best(driver: CudaDriver, copy: Callable[[], None]) -> float:
    """Other ranks copy at the same time over the same sockets: the best round is the least disturbed."""
    least_ns = 0
    for _ in range(_ROUNDS):
        start_ns = time.perf_counter_ns()
        copy()
        driver.synchronize()
        took_ns = time.perf_counter_ns() - start_ns
        least_ns = min(least_ns or took_ns, took_ns)
    return _COPY_BYTES / least_ns
