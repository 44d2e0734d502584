"""What a test takes, from what both of its ends measured."""

from __future__ import annotations

import pytest

from busbw.hunt.field import fields
from busbw.model.hunt import BANDWIDTH, LATENCY
from busbw.worker.hunt import _pair_test

(FIELD,) = fields(["a", "b"])


def test_a_message_has_ended_when_it_has_for_both_and_the_second_shortest_counts() -> None:
    first = {BANDWIDTH: ([5.0, 9.0, 7.0], [1.0, 1.0, 1.0])}
    second = {BANDWIDTH: ([8.0, 4.0, 6.0], [3.0, 2.0, 4.0])}
    assert _pair_test(FIELD, (0, 1), [first, second]).times_ns[BANDWIDTH] == ((8.0,), (3.0,))


@pytest.mark.parametrize(
    ("queued", "expected"), [((0.0, 0.0), 100.0), ((30.0, 20.0), 50.0), ((90.0, 80.0), 10.0)]
)
def test_waiting_for_a_core_is_no_latency(queued: tuple[float, float], expected: float) -> None:
    own = [
        {LATENCY: ([elapsed, lost, 0.0],) * 2} for elapsed, lost in zip((100.0, 95.0), queued, strict=True)
    ]
    assert _pair_test(FIELD, (0, 1), own).times_ns[LATENCY] == ((expected,), (expected,))
