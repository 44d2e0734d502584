"""The page in which a rank publishes how far it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.model.progress import (
    EXPECTED_FACTOR,
    HEAD_AT,
    PAGE_BYTES,
    CallMode,
    Page,
    Phase,
    decode,
    encode,
    limit_s,
    moving_part,
)

PAGE = Page(
    3,
    16,
    4242,
    Phase.TIMING,
    visit=9,
    limit_s=30.0,
    what="all_reduce 64 MiB float",
    entered=1782,
    enqueued=1781,
    completed=1700,
    mode=CallMode.WAITS_FOR_STREAM,
    asked=8,
    answered=7,
    folder="/runs/é",
)


def test_a_page_comes_back_as_it_was_published() -> None:
    assert len(encode(PAGE)) == PAGE_BYTES
    assert decode(encode(PAGE)) == PAGE


def test_a_page_of_another_layout_is_refused() -> None:
    data = bytearray(encode(PAGE))
    data[HEAD_AT] += 1
    with pytest.raises(ValueError, match="version 2"):
        decode(bytes(data))


def test_only_what_moves_counts_as_moving() -> None:
    still = moving_part(encode(PAGE))
    assert moving_part(encode(replace(PAGE, mode=CallMode.ISSUES, folder="elsewhere"))) == still
    for name in ("entered", "enqueued", "completed", "asked", "answered", "visit"):
        assert moving_part(encode(replace(PAGE, **{name: 10_000}))) != still


def test_what_is_no_timed_call_may_take_longer_and_long_calls_have_their_time() -> None:
    assert limit_s(30, Phase.TIMING) == 30
    assert limit_s(30, Phase.WARMUP) == limit_s(30, Phase.STARTING) == 90
    assert limit_s(30, Phase.TIMING, 10.0) == EXPECTED_FACTOR * 10.0
