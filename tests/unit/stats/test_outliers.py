from __future__ import annotations

import numpy as np
import pytest

from busbw.stats.outliers import count_outliers, exclude

# The MAD of 1..101 is 25, so 14.8 of it end at 51 +- 370.
PLAIN = np.arange(1.0, 102.0)


@pytest.mark.parametrize(("value", "far"), [(420.0, 0), (422.0, 1), (-318.0, 0), (-320.0, 1)])
def test_a_far_sample_is_counted(value: float, far: int) -> None:
    times = PLAIN.copy()
    times[0 if value < 51 else 100] = value
    assert count_outliers(times) == far


def test_neighbouring_ticks_of_the_clock_are_no_outliers() -> None:
    times = np.full(100, 1_000_000.0)
    times[:10] += 500
    assert count_outliers(times) == 0
    times[0] = 2_000_000.0
    assert count_outliers(times) == 1


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
