"""One case on NCCL: its prepared calls, alone, in groups (-m) or as CUDA graphs (-G), which are captured once
and launched as one piece of work.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from busbw.errors import UsageError
from busbw.machine.native import core
from busbw.machine.native.cuda import CudaDriver
from busbw.machine.native.nccl import NcclLibrary
from busbw.model.collective import Role, collective
from busbw.rank.backends.base import CallFailed, Int64Array, Look
from busbw.rank.backends.buffers import CaseBuffers
from busbw.rank.backends.graph import Graph
from busbw.rank.backends.nccl_support import Element
from busbw.rank.backends.parts import CheckedParts, gathered_offset, native_segments, ranged

# A bound on what a mistaken -n makes the driver and NCCL hold, as both keep every captured call until the
# graph is destroyed. Samples that pick their own k have a few hundred calls.
MAX_CALLS_PER_GRAPH: Final = 4096
# The one that is timed, and the one before it: pace and samples alternate between two numbers of calls.
_KEPT_GRAPHS: Final = 2
# ncclFloat32, ncclSum: what a barrier reduces, one of.
_FLOAT: Element = Element(7, 4)
_SUM = 0


@dataclass(frozen=True)
class Channel:
    """What every call of a rank goes through; lives as long as the communicator."""

    driver: CudaDriver
    nccl: NcclLibrary
    nccl_table: core.NcclTable
    cuda_table: core.CudaTable
    comm: int
    stream: int
    timed_stream: core.Stream
    errors: CallErrors


def case_spec(channel: Channel, buffers: CaseBuffers, element: Element, op: int) -> core.NcclSpec:
    """One call of a case, on its buffers."""
    shape, row = buffers.shape, buffers.case.row
    segments = native_segments(shape, buffers.role, element.per_element)
    spec = _spec(channel, buffers.role, element, collective=row.number, op=op)
    spec.send = buffers.send + gathered_offset(row, shape) * buffers.case.data_type.size_bytes
    spec.recv, spec.count = buffers.recv, shape.call_count * element.per_element
    spec.rotation = core.Rotation(buffers.stride_bytes, buffers.stride_bytes, buffers.slots)
    spec.segments = segments
    spec.arrays = segments.arrays  # of the value itself: a structure gives out copies of its fields
    return spec


def barrier_spec(channel: Channel, role: Role, address: int) -> core.NcclSpec:
    """An all_reduce of one float in place. Of zeros, it stays zero however often it is called."""
    spec = _spec(channel, role, _FLOAT, collective=collective("barrier").number, op=_SUM)
    spec.send, spec.recv, spec.count, spec.rotation = address, address, 1, core.Rotation(0, 0, 1)
    return spec


def _spec(channel: Channel, role: Role, element: Element, **own: int) -> core.NcclSpec:
    """What no buffer decides."""
    return core.NcclSpec(
        datatype=element.datatype,
        type_bytes=element.type_bytes,
        rank=role.rank,
        ranks=role.ranks,
        root=role.root,
        aggregate=1,
        nccl=ctypes.pointer(channel.nccl_table),
        cuda=ctypes.pointer(channel.cuda_table),
        comm=channel.comm,
        stream=channel.stream,
        **own,
    )


def nccl_call(channel: Channel, spec: core.NcclSpec) -> core.Call:
    """The prepared call; so many as its ``aggregate`` in one group are one issue."""
    return core.Call.nccl(spec, (channel, spec))


class NcclCase(CheckedParts):
    """One case on NCCL. Calls are timed in multiples of ``calls_per_issue``, at most ``max_calls`` a sample,
    and checked one by one.
    """

    def __init__(
        self,
        channel: Channel,
        whole: CaseBuffers,
        specs: Sequence[core.NcclSpec],
        *,
        aggregate: int = 1,
        graph: bool = False,
        barrier: core.Call | None = None,
        at_close: Callable[[], None] | None = None,
    ) -> None:
        self.whole, self.slots = whole, whole.slots
        self.calls_per_issue = aggregate
        self.max_calls = MAX_CALLS_PER_GRAPH // aggregate * aggregate if graph else sys.maxsize
        self._channel = channel
        self._barrier = barrier
        self._at_close = at_close
        calls = [nccl_call(channel, spec) for spec in specs]
        single = calls[0] if len(calls) == 1 else core.Call.nccl_parts(calls, channel.nccl_table)
        self._single = ranged(single, whole.case)
        # Parts are a group already: the plan has no aggregate of them.
        self._timed = self._single
        if aggregate > 1:
            group = core.NcclSpec.from_buffer_copy(specs[0])
            group.aggregate = aggregate
            self._timed = ranged(nccl_call(channel, group), whole.case, aggregate)
        self._is_graph = graph
        self._graphs: dict[int, Graph] = {}  # the last ones by their numbers of calls
        if graph:  # the first calls make connections and load kernels, neither of which belongs into a graph
            with channel.errors:
                self._single.issue()
                self._timed.issue()
                core.stream_wait(channel.timed_stream)

    def run(self, slot: int, calls: int = 1) -> None:
        """See PreparedCase. Through a graph of its own where graphs are timed: NCCL may do captured calls in
        another way, and what is checked should be what is timed.
        """
        with self._channel.errors:
            if not self._is_graph:
                self._issue(self._single, slot, calls)
                core.stream_wait(self._channel.timed_stream)
                return
            graph = self._graph(partial(self._issue, self._single, slot, calls))
            graph.call.issue()
            core.stream_wait(self._channel.timed_stream)
            graph.close()

    def time(self, lead: int, samples: int, k: int) -> Look:
        """See PreparedCase. With graphs, a sample is one launch of a graph of k calls, and so is the lead.
        Raises ValueError where lead or k are no multiples of ``calls_per_issue``.
        """
        call, lead_issues, issues = self._prepared(lead, k)
        with self._channel.errors:
            elapsed, issue = call.time_events(self._channel.timed_stream, lead_issues, samples, issues)
        return Look(elapsed, issue)

    def time_isolated(self, samples: int, delay_ns: Int64Array | None, *, barrier: bool) -> Look:
        """See PreparedCase; calls are single whatever the options."""
        before = self._barrier if barrier else None
        with self._channel.errors:
            elapsed, issue = self._single.time_isolated_events(
                before, self._channel.timed_stream, samples, delay_ns
            )
        return Look(elapsed, issue)

    def time_loop(self, calls: int) -> int:
        call, _, issues = self._prepared(0, calls)
        with self._channel.errors:
            return call.time_loop(self._channel.timed_stream, issues)

    def lane(self, calls: int, slot: int) -> core.Lane:
        """The case as one of several at once, each on a stream of its own."""
        return core.Lane(self._timed, calls, slot, self._channel.timed_stream)

    @property
    def errors(self) -> CallErrors:
        """What turns a failed call into an error."""
        return self._channel.errors

    def close(self) -> None:
        """See PreparedCase. After a failed call nothing is asked of the libraries any more: their answer
        would hide the failure, and the run ends.
        """
        if not self._channel.errors.failed:
            for graph in self._graphs.values():
                graph.close()
            if self._at_close is not None:
                self._at_close()
        self._graphs.clear()
        self._single.close()
        self._timed.close()

    def _prepared(self, lead: int, k: int) -> tuple[core.Call, int, int]:
        """What to issue, how often for the lead, and how often for a sample."""
        group = self.calls_per_issue
        if lead % group or k % group:
            raise ValueError(f"a lead of {lead} and samples of {k} calls are no multiples of {group}")
        if not self._is_graph:
            return self._timed, lead // group, k // group
        with self._channel.errors:
            return self._captured(k), min(lead, 1), 1

    def _captured(self, calls: int) -> core.Call:
        """The launch of a graph of so many calls. Raises UsageError for more than MAX_CALLS_PER_GRAPH."""
        if calls > MAX_CALLS_PER_GRAPH:
            raise UsageError(
                f"a CUDA graph of {calls} calls is too large: {MAX_CALLS_PER_GRAPH} fit",
                hint=f"give -n {MAX_CALLS_PER_GRAPH} or less with -G, or leave -G out",
            )

        def enqueue() -> None:
            for i in range(calls // self.calls_per_issue):
                self._timed.issue(i % self.slots)  # as the native loop walks

        graph = self._graphs.pop(calls, None)
        if graph is None:
            while len(self._graphs) >= _KEPT_GRAPHS:
                self._graphs.pop(next(iter(self._graphs))).close()
            graph = self._graph(enqueue)
        self._graphs[calls] = graph  # the last of the dict is the one used last
        return graph.call

    def _graph(self, enqueue: Callable[[], None]) -> Graph:
        channel = self._channel
        graph = Graph(channel.driver, channel.cuda_table, channel.stream, enqueue)
        # A launch holds many calls: kernels in it are told apart by nothing but the case.
        graph.call = ranged(graph.call, self.whole.case, graph=True)
        return graph

    @staticmethod
    def _issue(call: core.Call, slot: int, calls: int) -> None:
        for _ in range(calls):
            call.issue(slot)


class CallErrors:
    """Turns a status of the native core into an error in the failing library's own words. ``failed`` stays
    set from the first one on.
    """

    def __init__(self, driver: CudaDriver, nccl: NcclLibrary, timeout_s: float) -> None:
        self.failed = False
        self._driver = driver
        self._nccl = nccl
        self._timeout_s = timeout_s

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, core.CallError):
            return
        self.failed = True
        if error.gpu_library == "nccl":
            raise CallFailed(f"NCCL call failed: {self._nccl.error_text(error.gpu_code)}") from error
        if error.gpu_library == "cuda":
            raise CallFailed(f"CUDA call failed: {self._driver.error_text(error.gpu_code)}") from error
        if error.status == core.TIMED_OUT:
            raise CallFailed(
                f"no completion within {self._timeout_s:g} s",
                hint="raise -T if calls may take so long, else look for the rank that does not take part"
                " (NCCL_DEBUG=INFO)",
            ) from error
