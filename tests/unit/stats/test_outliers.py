from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from busbw.stats.outliers import Outliers, count_outliers, exclude

# The quartiles of 1..101 by nearest rank are 26 and 76: fences at -49 and 151 (mild), -124 and 226 (severe);
# the MAD is 25, so 14.8 of it end at 51 +- 370.
PLAIN = np.arange(1.0, 102.0)


def test_no_outliers_in_a_uniform_series() -> None:
    assert count_outliers(PLAIN) == Outliers(0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("index", "value", "field"),
    [(0, -48.0, ""), (0, -60.0, "mild_low"), (0, -130.0, "severe_low"), (100, 160.0, "mild_high")],
)
def test_one_sample_beyond_a_fence(index: int, value: float, field: str) -> None:
    times = PLAIN.copy()
    times[index] = value
    expected = {"severe_low": 0, "mild_low": 0, "mild_high": 0, "severe_high": 0, "far": 0}
    if field:
        expected[field] = 1
    assert count_outliers(times) == Outliers(**expected)


def test_a_far_sample_is_severe_too_and_counted_in_both() -> None:
    times = PLAIN.copy()
    times[100] = 1000.0
    counted = count_outliers(times)
    assert counted == Outliers(0, 0, 0, severe_high=1, far=1)
    assert counted.total == 1


def test_neighbouring_ticks_of_the_clock_are_no_outliers() -> None:
    times = np.full(100, 1_000_000.0)
    times[:10] += 500
    assert count_outliers(times).total == 0
    times[0] = 2_000_000.0
    assert count_outliers(times) == Outliers(0, 0, 0, severe_high=1, far=1)


def test_one_sample_has_no_outliers() -> None:
    assert count_outliers(np.array([7.0])).total == 0


def test_flags_in_the_mask_exclude_and_others_do_not() -> None:
    result = exclude(np.array([0, 1, 2, 4, 8, 3]), mask=1 | 2)
    assert result.kept.tolist() == [0, 3, 4]
    assert result.reasons == ((1, 2), (2, 2))
    assert result.excluded == 3  # the last has both reasons and is excluded once
    assert not result.valid


@pytest.mark.parametrize(("excluded", "valid"), [(0, True), (5, True), (6, False), (100, False)])
def test_more_than_one_in_twenty_make_a_case_invalid(excluded: int, valid: bool) -> None:
    flags = np.zeros(100, np.int32)
    flags[:excluded] = 4
    assert exclude(flags, 15).valid is valid


def test_nothing_flagged_keeps_everything() -> None:
    result = exclude(np.zeros(3, np.int32), 15)
    assert (result.kept.tolist(), result.reasons, result.valid) == ([0, 1, 2], (), True)


@given(st.lists(st.integers(0, 15), max_size=60), st.integers(0, 15))
def test_every_sample_is_kept_or_has_a_reason(flags: list[int], mask: int) -> None:
    result = exclude(np.array(flags, np.int32), mask)
    assert result.kept.tolist() == [i for i, flag in enumerate(flags) if not flag & mask]
    assert dict(result.reasons) == {
        bit: count for bit in (1, 2, 4, 8) if bit & mask and (count := sum(bool(f & bit) for f in flags))
    }
