"""What a printed average tells of rows."""

from __future__ import annotations

from busbw.importers.average import Mean
from busbw.importers.printed import OnePrinted


def test_a_row_more_would_change_the_average() -> None:
    mean = Mean(65.0, 0.005, 8)
    assert mean.is_whole(OnePrinted(65.0, 0.0005))
    assert not mean.is_whole(OnePrinted(60.0, 0.0005))


def test_an_average_of_nothing_does_not_tell_whether_a_row_is_missing() -> None:
    assert Mean(0.001, 0.005, 8).fits(OnePrinted(0.002, 0.0005))
    assert not Mean(0.001, 0.005, 8).is_whole(OnePrinted(0.002, 0.0005))
