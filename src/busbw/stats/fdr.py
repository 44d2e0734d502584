"""Many decisions at once: how many of those called different are not (false-discovery rate)."""

from __future__ import annotations

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
