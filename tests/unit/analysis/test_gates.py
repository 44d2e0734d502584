"""Gates: pass, fail, undecided; and minima that nobody reaches are not used."""

from __future__ import annotations

import pytest

from busbw.analysis.gates import PUBLISHED, Bound, Gate, overall


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
    assert Bound(least, 110.0, low, high).judge() is gate


def test_one_fail_fails_and_one_doubt_keeps_from_passing() -> None:
    assert overall([Gate.PASS, Gate.UNDECIDED, Gate.FAIL]) is Gate.FAIL
    assert overall([Gate.PASS, Gate.UNDECIDED]) is Gate.UNDECIDED
    assert overall([Gate.PASS]) is Gate.PASS


def test_published_minima_are_not_used_where_no_published_run_reaches_them() -> None:
    assert len(PUBLISHED) == 6
    for minimum in PUBLISHED:
        assert not minimum.used
        assert minimum.reason
    p5 = next(m for m in PUBLISHED if m.least_gb_per_s == 800)
    assert "289" in p5.reason
