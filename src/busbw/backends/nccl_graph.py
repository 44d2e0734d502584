"""CUDA graphs of a case's calls: captured once, launched as one piece of work (-G)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

from busbw._native import core
from busbw._native.cuda import CudaDriver, CudaError
from busbw.errors import UsageError

# A bound on what a mistaken -n makes the driver and NCCL hold, as both keep every captured call until the
# graph is destroyed. Samples that pick their own k have a few hundred calls.
MAX_CALLS_PER_GRAPH: Final = 4096
# The one that is timed, and the one before it: pace and samples alternate between two numbers of calls.
_KEPT: Final = 2


class Graph:
    """What ``enqueue`` puts on the stream, as one launch. Everything in it must have run before, so that
    NCCL has its connections and the driver its kernels.
    """

    def __init__(
        self, driver: CudaDriver, cuda: core.CudaTable, stream: int, enqueue: Callable[[], None]
    ) -> None:
        self._driver = driver
        self._executable = _instantiated(driver, _captured(driver, stream, enqueue))
        self.call = core.Call.graph(cuda, self._executable, stream)

    def close(self) -> None:
        """Destroy it; not while it runs. The communicator waits for this before it can be destroyed."""
        self.call.close()
        if self._executable:
            self._driver.graph_exec_destroy(self._executable)
            self._executable = 0


class GraphCache:
    """The last graphs of a case by their numbers of calls; ``make(calls)`` captures a missing one."""

    def __init__(self, make: Callable[[int], Graph]) -> None:
        self._make = make
        self._graphs: dict[int, Graph] = {}

    def get(self, calls: int) -> core.Call:
        """The launch of a graph of so many calls. Raises UsageError for more than MAX_CALLS_PER_GRAPH."""
        if calls > MAX_CALLS_PER_GRAPH:
            raise UsageError(
                f"a CUDA graph of {calls} calls is too large: {MAX_CALLS_PER_GRAPH} fit",
                hint=f"give -n {MAX_CALLS_PER_GRAPH} or less with -G, or leave -G out",
            )
        graph = self._graphs.pop(calls, None)
        if graph is None:
            while len(self._graphs) >= _KEPT:
                self._graphs.pop(next(iter(self._graphs))).close()
            graph = self._make(calls)
        self._graphs[calls] = graph  # the last of the dict is the one used last
        return graph.call

    def close(self) -> None:
        """Destroy all."""
        for graph in self._graphs.values():
            graph.close()
        self._graphs.clear()


def _captured(driver: CudaDriver, stream: int, enqueue: Callable[[], None]) -> int:
    driver.stream_begin_capture(stream)
    try:
        enqueue()
    except core.CallError:
        # The capture must end, or the stream stays unusable; that it failed is known already.
        with contextlib.suppress(CudaError):
            driver.stream_end_capture(stream)
        raise
    return driver.stream_end_capture(stream)


def _instantiated(driver: CudaDriver, graph: int) -> int:
    try:
        return driver.graph_instantiate(graph)
    finally:
        driver.graph_destroy(graph)
