"""Reading on where a connection broke."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from busbw.launch.kubernetes.logs import Position


def stamped(times: list[int]) -> list[tuple[str, bytes]]:
    """Lines at times (tenths of a second); several can have the same."""
    return [
        (f"2026-11-22T10:00:{at // 10:02}.{at % 10}00000000Z", b"line %d" % number)
        for number, at in enumerate(sorted(times))
    ]


@given(st.lists(st.integers(0, 99), max_size=40), st.lists(st.integers(0, 40), max_size=5))
def test_nothing_is_lost_and_nothing_comes_twice(times: list[int], cuts: list[int]) -> None:
    """At each cut a number of lines had been written, and the server sends from the second that is asked."""
    log = stamped(times)
    position = Position()
    heard: list[str] = []
    for written in [*sorted(cuts), len(log)]:
        since = position.since
        sent = [line for line in log[:written] if not since or line[0][:19] >= since[:19]]
        heard += position.new([stamp.encode() + b" " + text for stamp, text in sent])
    assert heard == [text.decode() for _, text in log]


def test_what_is_no_line_of_the_log_is_left_out() -> None:
    lines = [b"2026-11-22T10:00:00.1Z one", b"rpc error: code = Unknown", b"2026-11-22T10:00:00.2+02:00 two"]
    assert list(Position().new(lines)) == ["one", "two"]
