"""A case's calls as ranges of a profiler; as they are where none is attached."""

from __future__ import annotations

from busbw._native import nvtx
from busbw._native.core import Call
from busbw.model.case import Case
from busbw.model.ranges import CallRange


def is_profiled() -> bool:
    """Whether a profiler has attached to this process, by NVTX_INJECTION64_PATH."""
    return nvtx.attach()


def ranged(call: Call, case: Case, calls: int = 1, *, graph: bool = False) -> Call:
    """The call within a range that says what it does. Takes the call over."""
    if not nvtx.attach():
        return call
    return nvtx.ranged(call, str(CallRange.of(case, calls, graph=graph)), case.size_bytes)
