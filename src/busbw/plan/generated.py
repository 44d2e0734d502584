"""Tables of counts from a number: how uneven the traffic of alltoallv and all_gatherv is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from busbw.errors import UsageError
from busbw.model.counts import SEGMENT_ALIGNMENT_BYTES, SHARES, CountTable

# Weights of a skew are multiples of 1 / this: fine enough for any size, coarse enough to multiply with.
_WEIGHT_UNIT: Final = 2**30
_BISECTIONS: Final = 100


def spread_table(spread: float, ranks: int) -> CountTable:
    """Traffic by distance, as nccl-tests generates it: of what a rank sends, the rank d further on (modulo n)
    gets (1 - s) / n + s * 2d / (n (n - 1)), cut to 16 bytes. Every rank sends and receives the same.
    """
    if not 0 <= spread <= 1:
        raise UsageError(
            f"--spread {spread:g} is not between 0 and 1", hint="give 0 (even) to 1 (by distance)"
        )
    part = Fraction(str(spread))
    uneven, even = part.numerator, part.denominator - part.numerator
    row = (
        tuple(even * (ranks - 1) + 2 * uneven * distance for distance in range(ranks)) if ranks > 1 else (1,)
    )
    return CountTable(
        origin=f"spread {spread:g}",
        ranks=ranks,
        send=(row,),
        whole=sum(row),
        unit=SHARES,
        by_distance=True,
        spread=spread,
        align_bytes=SEGMENT_ALIGNMENT_BYTES,
        collective="alltoallv",
    )


def skew_table(skew: float, collective: str, ranks: int) -> CountTable:
    """One busy rank, as an expert that most tokens go to: rank 0 gets ``skew`` times the mean of all ranks,
    and rank j r^j of what rank 0 gets, with the r for which this mean holds. In an all_gatherv rank 0 gives,
    not gets.

    All ranks send alike. The size is the busiest rank's; ``skew`` runs from 1 (even) to the number of ranks
    (everything to rank 0). Raises UsageError outside.
    """
    if not 1 <= skew <= ranks:
        raise UsageError(
            f"--skew {skew:g} is not between 1 and {ranks}",
            hint=f"give 1 (even) to {ranks}: no rank can get more than {ranks} times the mean",
        )
    decay = _decay(skew, ranks)
    return table_of_shares([decay**rank for rank in range(ranks)], collective, f"skew {skew:g}")


def table_of_shares(shares: Sequence[float], collective: str, origin: str) -> CountTable:
    """What rank j gets of every rank (in an all_gatherv: gives) is in proportion to ``shares[j]``; the
    first is the largest.
    """
    # Rounded up, or a share of a third would end a segment short of the bytes that it is a third of.
    weights = tuple(math.ceil(_WEIGHT_UNIT * share / shares[0]) for share in shares)
    ranks, gathered = len(weights), collective == "all_gatherv"
    return CountTable(
        origin=origin,
        ranks=ranks,
        send=tuple((weight,) for weight in weights) if gathered and ranks > 1 else (weights,),
        whole=sum(weights) if gathered else ranks * weights[0],
        unit=SHARES,
        align_bytes=SEGMENT_ALIGNMENT_BYTES,
        collective=collective,
    )


def _decay(skew: float, ranks: int) -> float:
    """The r in [0, 1] with 1 + r + ... + r^(n-1) = n / skew, by bisection: the sum grows with r."""
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if math.fsum(middle**rank for rank in range(ranks)) < ranks / skew:
            low = middle
        else:
            high = middle
    return 1.0 if skew == 1 else high if skew < ranks else 0.0
