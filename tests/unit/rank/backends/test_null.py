from __future__ import annotations

import pytest

from busbw.model.case import Case
from busbw.model.collective import Placement
from busbw.rank.backends.null import NullBackend


@pytest.mark.parametrize(("size_bytes", "call_ns"), [(0, 1000), (99, 1000), (100, 1001), (10**9, 10_001_000)])
def test_times_are_exact(size_bytes: int, call_ns: int) -> None:
    case = Case(0, "all_reduce", "int8", "sum", -1, size_bytes, size_bytes, size_bytes, Placement.IN_PLACE)
    look = NullBackend().prepare(case).time(lead=5, samples=3, k=7)
    assert look.elapsed_ns.tolist() == look.issue_ns.tolist() == [7 * call_ns] * 3
