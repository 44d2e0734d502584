"""Gates: pass, fail, undecided."""

from __future__ import annotations

import pytest

from busbw.judge.expectation import Gate, gate_of, overall


@pytest.mark.parametrize(
    ("least", "low", "high", "gate"),
    [
        (100.0, 101.0, 120.0, Gate.PASS),
        (100.0, 80.0, 99.0, Gate.FAIL),
        (100.0, 95.0, 115.0, Gate.UNDECIDED),
        (100.0, 100.0, 120.0, Gate.PASS),
        (110.0, None, None, Gate.PASS),
        (111.0, None, None, Gate.FAIL),
    ],
)
def test_the_whole_interval_decides(least: float, low: float | None, high: float | None, gate: Gate) -> None:
    assert gate_of(least, 110.0, low, high) is gate


def test_one_fail_fails_and_one_doubt_keeps_from_passing() -> None:
    assert overall([Gate.PASS, Gate.UNDECIDED, Gate.FAIL]) is Gate.FAIL
    assert overall([Gate.PASS, Gate.UNDECIDED]) is Gate.UNDECIDED
    assert overall([Gate.PASS]) is Gate.PASS
