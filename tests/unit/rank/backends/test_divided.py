"""Every bit of a sum that a mean is divided from is seen, in the sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from busbw.machine.native import core
from busbw.model.datatype import data_type, reduce_op
from busbw.model.layout import Holds
from busbw.rank.backends.buffers import UNDIVIDED

COUNT = 64
NUMPY: dict[str, Any] = {"half": np.float16, "float": np.float32, "double": np.float64}
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
AVG = reduce_op("avg").number


def sums(name: str, ranks: int, pattern: core.Pattern) -> Any:
    """The exact sum over all ranks, as bits."""
    dtype = np.dtype(NUMPY.get(name, name))
    total = np.zeros(COUNT, dtype)
    for rank in range(ranks):
        own = np.zeros(COUNT, dtype)
        core.fill(own.ctypes.data, pattern, core.Region(0, COUNT, 0, Holds.CONTRIBUTION, rank))
        total = total + own
    return total.view(f"u{dtype.itemsize}")


def wrong(pattern: core.Pattern, bits: Any, flags: int) -> list[int]:
    result = core.new_check_result()
    core.check(bits.ctypes.data, pattern, core.Region(0, COUNT, 0, Holds.REDUCED | flags, 0), result)
    return [result.wrong, result.first_wrong] if result.wrong else []


@pytest.mark.parametrize("name", [*INTEGERS, *NUMPY])
@pytest.mark.parametrize("ranks", [2, 7, 63])
def test_every_flipped_bit_of_a_sum_is_seen(name: str, ranks: int) -> None:
    dtype = data_type(name)
    pattern = core.pattern(5, ranks, dtype.number, AVG)
    right = sums(name, ranks, pattern)
    assert wrong(pattern, right, UNDIVIDED) == []
    divided = right.copy()
    core.scale(dtype.number, AVG, divided.ctypes.data, COUNT, 0, ranks)
    assert wrong(pattern, divided, 0) == []
    for element in range(COUNT):
        for bit in range(8 * dtype.size_bytes):
            flipped = right.copy()
            flipped[element] ^= flipped.dtype.type(1 << bit)
            assert wrong(pattern, flipped, UNDIVIDED) == [1, element]
