"""The pace of a hunt, from a few messages: how many make a sample, how long waits sleep, and whether a round
fits into its time, which is known before it is run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from busbw.errors import UndecidedError
from busbw.model.hunt import BANDWIDTH, BOTH_WAYS, Hunt
from busbw.rank.world.base import RefusedTogether
from busbw.units import format_duration, format_size

LOOKS: Final = 2  # messages by which the pace is found
_WAYS: Final = {BANDWIDTH: 2, BOTH_WAYS: 1}  # how often a round sends what is sampled
_MOST_CALLS: Final = 1000
# A sleeping wait looks this often in a call: an error of 0.4 % at most, on all alike.
_LOOKS_A_CALL: Final = 256
LEAST_PAUSE_NS: Final = 50_000  # the kernel's own slack; a wait that would sleep less spins
_MOST_PAUSE_NS: Final = 1_000_000
SMALL_PAUSE_NS: Final = 20_000
_SPARE: Final = 2  # of the time that is proposed: small messages come on top, and paces differ


@dataclass(frozen=True)
class Pace:
    """Calls of a sample, and nanoseconds that a wait sleeps between looks; 0: it spins."""

    calls: int
    pause_ns: int


def pace_of(hunt: Hunt, call_ns: float, *, sleeps: bool, slowest: str) -> Pace:
    """From what a message takes in the ``slowest`` pair or group; ``sleeps``: waits always do. Raises
    RefusedTogether where a round takes too long.
    """
    calls = min(_MOST_CALLS, math.ceil(hunt.sample_ns / call_ns))
    refuse_long(hunt, calls, call_ns, slowest)
    pause_ns = min(_MOST_PAUSE_NS, round(call_ns / _LOOKS_A_CALL))
    if sleeps:
        return Pace(calls, max(pause_ns, SMALL_PAUSE_NS))
    is_long = hunt.wait == "auto" and pause_ns >= LEAST_PAUSE_NS
    return Pace(calls, pause_ns if is_long else 0)


def refuse_long(hunt: Hunt, calls: int, call_ns: float, slowest: str = "pair") -> None:
    """Raise RefusedTogether where a round takes longer than it may even if no part is slow. All ranks know
    the same pace, so all raise.
    """
    long = _too_long(hunt, calls, call_ns, slowest)
    if long is not None:
        raise RefusedTogether(long.message, hint=long.hint, exit_code=long.exit_code, rank=None, host="")


def _too_long(hunt: Hunt, calls: int, call_ns: float, slowest: str) -> UndecidedError | None:
    least_s = least_round_s(hunt, calls, call_ns)
    if least_s <= hunt.timeout_s:
        return None
    took, limit, one = map(format_duration, (least_s, hunt.timeout_s, call_ns / 1e9))
    size = format_size(hunt.size_bytes)
    return UndecidedError(
        f"a round takes {took} or more, and --round-timeout is {limit}: {size} takes {one}"
        f" in the slowest {slowest}",
        hint=f"give a smaller -b, or --round-timeout {round(_SPARE * least_s) + 1}s",
    )


def least_round_s(hunt: Hunt, calls: int, call_ns: float) -> float:
    """Seconds that the large messages of the first round take: to find the pace, to warm up, in samples of
    so many ``calls``.
    """
    ways = 1 if hunt.kind == "rails" else sum(_WAYS.get(metric, 0) for metric in hunt.rules.metrics)
    return (LOOKS + ways * (1 + hunt.samples * calls)) * call_ns / 1e9
