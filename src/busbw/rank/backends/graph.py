"""CUDA graphs: what a stream is given, captured once and launched as one piece of work."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from busbw.errors import SiteError
from busbw.machine.native import core
from busbw.machine.native.cuda import CudaDriver, CudaError


class Graph:
    """What ``enqueue`` puts on the stream, as one launch. Everything in it must have run before, so that
    libraries have their connections and the driver its kernels.
    """

    def __init__(
        self, driver: CudaDriver, cuda: core.CudaTable, stream: int, enqueue: Callable[[], None]
    ) -> None:
        self._driver = driver
        graph = _captured(driver, stream, enqueue)
        try:
            self._executable = driver.graph_instantiate(graph)
        finally:
            driver.graph_destroy(graph)
        self.call = core.Call.graph(cuda, self._executable, stream)

    def close(self) -> None:
        """Destroy it; not while it runs. The communicator waits for this before it can be destroyed."""
        self.call.close()
        if self._executable:
            self._driver.graph_exec_destroy(self._executable)
            self._executable = 0


def _captured(driver: CudaDriver, stream: int, enqueue: Callable[[], None]) -> int:
    driver.stream_begin_capture(stream)
    try:
        enqueue()
    except (core.CallError, SiteError):
        # The capture must end, or the stream stays unusable; that it failed is known already.
        with contextlib.suppress(CudaError):
            driver.stream_end_capture(stream)
        raise
    return driver.stream_end_capture(stream)
