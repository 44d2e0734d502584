"""Calls are counted in the words that a rank publishes."""

from __future__ import annotations

import ctypes
import mmap

from busbw.machine.native import core
from busbw.model.progress import PAGE_BYTES, CallMode, Page, decode, encode


def test_every_call_is_counted_while_somebody_wants_it() -> None:
    memory = mmap.mmap(-1, PAGE_BYTES)
    memory[:] = encode(Page(0, 1, 1, mode=CallMode.ISSUES))
    view = ctypes.c_char.from_buffer(memory)
    call = core.Call.null()
    core.count_progress(ctypes.addressof(view))
    try:
        call.time_host(2, 3, 5)
        call.issue()
    finally:
        core.count_progress(None)
    call.issue()
    call.close()
    page = decode(memory[:])
    assert (page.entered, page.enqueued, page.done, page.mode) == (18, 18, 18, CallMode.BLOCKS)
    assert not page.in_call
    del view
