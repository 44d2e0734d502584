"""Whether a round of a hunt fits into its time: known from the pace, before it is run."""

from __future__ import annotations

from typing import Final

from busbw.errors import UndecidedError
from busbw.model.hunt import BANDWIDTH, BOTH_WAYS, Hunt
from busbw.units import format_duration, format_size
from busbw.worker.agree import RefusedTogether

LOOKS: Final = 2  # messages by which the pace is found
_WAYS: Final = {BANDWIDTH: 2, BOTH_WAYS: 1}  # how often a round sends what is sampled
_SPARE: Final = 2  # of the time that is proposed: small messages come on top, and paces differ


def refuse_long(hunt: Hunt, calls: int, call_ns: float) -> None:
    """Raise RefusedTogether where a round takes longer than it may, everybody being well. All ranks know
    the same pace, so all raise.
    """
    long = _too_long(hunt, calls, call_ns)
    if long is not None:
        raise RefusedTogether(long.message, hint=long.hint, exit_code=long.exit_code, rank=None, host="")


def _too_long(hunt: Hunt, calls: int, call_ns: float) -> UndecidedError | None:
    least_s = least_round_s(hunt, calls, call_ns)
    if least_s <= hunt.timeout_s:
        return None
    took, limit, one = map(format_duration, (least_s, hunt.timeout_s, call_ns / 1e9))
    size = format_size(hunt.size_bytes)
    return UndecidedError(
        f"a round takes {took} or more, and --round-timeout is {limit}: {size} takes {one}"
        " in the slowest pair",
        hint=f"give a smaller -b, or --round-timeout {round(_SPARE * least_s) + 1}s",
    )


def least_round_s(hunt: Hunt, calls: int, call_ns: float) -> float:
    """Seconds that the large messages of the first round take: to find the pace, to warm up, in samples of
    so many ``calls``.
    """
    ways = 1 if hunt.kind == "rails" else sum(_WAYS.get(metric, 0) for metric in hunt.rules.metrics)
    return (LOOKS + ways * (1 + hunt.samples * calls)) * call_ns / 1e9
