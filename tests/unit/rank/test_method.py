"""What the record says of how a run was measured."""

from __future__ import annotations

from typing import Any

import pytest

from busbw.plan.flags.run import RunSettings
from busbw.plan.make import make_plan
from busbw.rank.main import _method


class _Given:
    timing_cost_ns = 1.0
    clock = None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "rotating through the largest size"),
        ({"hot": True}, "one place (hot)"),
        ({"iters": 10, "unique_buffers": True}, "a place of its own for every call"),
        ({"unalign": 3}, "rotating through the largest size, misaligned by 3 elements"),
    ],
)
def test_where_the_buffers_are(settings: dict[str, Any], words: str) -> None:
    plan = make_plan(("all_reduce",), RunSettings(**settings), "null", 2)
    assert _method(plan, _Given()).buffers == words  # type: ignore[arg-type]


def test_what_is_kept() -> None:
    plan = make_plan(("all_reduce",), RunSettings(raw_ranks=40), "null", 2)
    said = _method(plan, _Given()).retention  # type: ignore[arg-type]
    assert "raw samples of all ranks up to 40 ranks, beyond that of rank 0 and of the 4" in said
