from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.errors import UsageError
from busbw.plan.swept import sizes


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((8, 64, 0, 2.0), (8, 16, 32, 64)),
        ((8, 8, 0, 2.0), (8,)),
        ((10, 40, 0, 1.5), (10, 15, 22, 33)),
        ((0, 10, 4, 1.0), (0, 4, 8)),
        ((1, 1000, 0, 10.0), (1, 10, 100, 1000)),
        ((8, 2**62, 0, 1e308), (8,)),
    ],
)
def test_sweeps(arguments: tuple[int, int, int, float], expected: tuple[int, ...]) -> None:
    assert sizes(*arguments) == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((64, 8, 0, 2.0), r"first size \(64 B\) is larger than the last \(8 B\)"),
        ((8, 64, 0, 0.5), "factor between sizes is 0.5"),
        ((8, 64, 0, 1.0), "step between sizes is 0"),
        ((0, 64, 0, 2.0), "cannot start at 0 bytes"),
        ((1, 64, 0, 1.5), "does not change 1 B"),
        ((8, 64, 0, float("inf")), "factor between sizes is inf"),
        ((1, 2**40, 1, 1.0), "makes 1099511627776 sizes"),
        ((2**40, 2**50, 0, 1.000001), "makes more than 1000000 sizes"),
    ],
)
def test_empty_and_endless_sweeps_are_refused(arguments: tuple[int, int, int, float], words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        sizes(*arguments)
    assert refused.value.hint


@given(st.integers(1, 2**20), st.integers(0, 2**40), st.floats(2, 16))
def test_a_sweep_rises_within_its_bounds(first: int, more: int, factor: float) -> None:
    swept = sizes(first, first + more, 0, factor)
    assert swept[0] == first
    assert swept[-1] <= first + more < swept[-1] * factor + 1
    assert all(before < after for before, after in pairwise(swept))
