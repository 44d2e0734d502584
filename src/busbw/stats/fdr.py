"""Many decisions at once: how many of those called different are not (false-discovery rate)."""

from __future__ import annotations

import math
from collections.abc import Sequence


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """The q of each p, in their order: the false-discovery rate at which it would just be called.

    Benjamini & Hochberg 1995; holds for independent tests and for the positive dependence that sizes of one
    sweep have (Benjamini & Yekutieli 2001).
    """
    many = len(p_values)
    order = sorted(range(many), key=p_values.__getitem__, reverse=True)
    q_values = [1.0] * many
    least = 1.0
    for position, index in enumerate(order):
        least = min(least, p_values[index] * many / (many - position))
        q_values[index] = least
    return q_values


def rate_bound(events: int, trials: int, confidence: float = 0.95) -> float:
    """The rate of an event that occurred so often in so many independent trials is below this, with
    ``confidence`` (Clopper & Pearson 1934, one-sided): 14 % for 0 of 20, where the rule of three, 3 / trials,
    is its approximation; 22 % for 1 of 20.
    """
    if events >= trials:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):  # to the last place of a float
        rate = (low + high) / 2
        so_few = sum(math.comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(events + 1))
        low, high = (rate, high) if so_few > 1 - confidence else (low, rate)
    return high
