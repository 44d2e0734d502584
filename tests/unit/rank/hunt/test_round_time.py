"""A round that cannot fit into its time is refused before it is run."""

from __future__ import annotations

import pytest

from busbw.errors import ExitCode
from busbw.model.hunt import BANDWIDTH, BOTH_WAYS, LATENCY, Hunt, Rules
from busbw.rank.hunt.round_time import least_round_s, refuse_long
from busbw.rank.world.base import RefusedTogether


def hunt(kind: str, *metrics: str) -> Hunt:
    return Hunt(kind, 64 << 20, Rules(metrics=metrics), timeout_s=30.0)


@pytest.mark.parametrize(
    ("hunted", "calls", "messages"),
    [
        (hunt("isolate", BANDWIDTH, LATENCY), 1, 2 + 2 * 6),
        (hunt("pairs", BANDWIDTH, LATENCY, BOTH_WAYS), 1, 2 + 3 * 6),
        (hunt("rails", BANDWIDTH), 3, 2 + 16),
    ],
)
def test_the_messages_of_a_round(hunted: Hunt, calls: int, messages: int) -> None:
    assert least_round_s(hunted, calls, 1e9) == messages


def test_a_round_is_refused_where_its_messages_alone_take_longer() -> None:
    hunted = hunt("isolate", BANDWIDTH, LATENCY)
    refuse_long(hunted, 1, 2.1e9)
    with pytest.raises(RefusedTogether, match="a round takes 37") as refused:
        refuse_long(hunted, 1, 2.7e9)
    assert refused.value.exit_code is ExitCode.UNDECIDED
    assert refused.value.hint == "give a smaller -b, or --round-timeout 77s"
    assert refused.value.host == ""
