"""The message sizes of a sweep."""

from __future__ import annotations

import math
from typing import Final

from busbw.errors import UsageError
from busbw.units import format_size

MOST_SIZES: Final = 1_000_000  # a mistaken step, not a sweep


def sizes(min_bytes: int, max_bytes: int, step_bytes: int, factor: float) -> tuple[int, ...]:
    """Sizes from ``min_bytes`` to ``max_bytes`` by a factor, or, with factor 1, by adding ``step_bytes``.

    As in nccl-tests, a factor starts from the first size and stops at the last one not above the maximum.
    Raises UsageError for an empty or endless sweep.
    """
    if min_bytes > max_bytes:
        raise UsageError(
            f"the first size ({format_size(min_bytes)}) is larger than the last ({format_size(max_bytes)})",
            hint="give -b (first size) and -e (last size) with -b <= -e",
        )
    if min_bytes < 0:
        raise UsageError("a size cannot be negative")
    if not 1 <= factor < math.inf:
        raise UsageError(
            f"the factor between sizes is {_shown(factor)}", hint="give -f 2, or -f 1 with -i STEP"
        )
    if factor == 1:
        if step_bytes <= 0 and min_bytes != max_bytes:
            raise UsageError("the step between sizes is 0", hint="give -i, the bytes to add, or -f, a factor")
        steps = range(min_bytes, max_bytes + 1, max(1, step_bytes))
        if len(steps) > MOST_SIZES:
            raise UsageError(
                f"a step of {max(1, step_bytes)} bytes makes {len(steps)} sizes",
                hint=f"give a larger -i, or -f 2 (at most {MOST_SIZES} sizes)",
            )
        return tuple(steps)
    return _by_factor(min_bytes, max_bytes, factor)


def _by_factor(min_bytes: int, max_bytes: int, factor: float) -> tuple[int, ...]:
    if min_bytes == 0:
        raise UsageError(
            "a sweep by a factor cannot start at 0 bytes", hint="start at -b 1, or step with -f 1 -i"
        )
    out = [min_bytes]
    while (following := out[-1] * factor) < max_bytes + 1:  # a float still: it may be infinite
        if len(out) == MOST_SIZES:
            raise UsageError(
                f"factor {_shown(factor)} makes more than {MOST_SIZES} sizes", hint="use a larger -f"
            )
        if int(following) == out[-1]:
            raise UsageError(
                f"factor {_shown(factor)} does not change {format_size(out[-1])}", hint="use a larger -f"
            )
        out.append(int(following))
    return tuple(out)


def _shown(factor: float) -> str:
    """As it was written: 2, 1.0000001."""
    return repr(float(factor)).removesuffix(".0")
