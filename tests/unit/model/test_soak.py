from __future__ import annotations

from busbw.model.soak import KEPT_WHOLE, Window, kept


def window(number: int) -> Window:
    return Window(0, 10.0 * number, 10.0, 100, 1000.0 + number % 2, 900.0, 2000.0 + number, wrong=0)


def test_what_is_kept_does_not_grow_with_hours_and_loses_nothing_that_adds_up() -> None:
    windows: tuple[Window, ...] = ()
    for number in range(20 * KEPT_WHOLE):
        windows = kept(windows, window(number))
    assert len(windows) < 2 * KEPT_WHOLE
    assert sum(each.windows for each in windows) == 20 * KEPT_WHOLE
    assert sum(each.calls for each in windows) == 100 * 20 * KEPT_WHOLE
    assert max(each.most_ns for each in windows) == 2000.0 + 20 * KEPT_WHOLE - 1
    assert all(each.windows == 1 for each in windows[-KEPT_WHOLE:])
    ends = [each.start_s + each.seconds for each in windows]
    assert ends[:-1] == [each.start_s for each in windows[1:]]
    assert windows[0].median_ns == 1000.5
