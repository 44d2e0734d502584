"""Faults of a collective in a message of 64 Ki elements: all are found, in every type and operation.

A rank that takes part in one of 2160 elements (max, min, avg of floats) is expected 30 times in such a
message, and missing from it with a probability of exp(-30). What a fault makes of the result is computed from
the reduction, which is exact: test_pattern.py and test_avg_and_mulsum.py show that.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

Array = npt.NDArray[Any]
Type = Any  # conftest.Type

CONTRIBUTION, REDUCED, MOVED, COMPLEMENT = 0, 1, 2, 16
ELEMENTS = 1 << 16
RANKS = (2, 3, 64, 2160)
EVERY_OP = pytest.mark.parametrize("op", ["sum", "prod", "max", "min", "avg", "mulsum"])


def patterns(type_: Type, op: str, seed: int = 7) -> Iterator[Any]:
    """For all numbers of ranks that there are data for (test_avg_and_mulsum.py has which)."""
    for ranks in RANKS:
        try:
            yield type_.pattern(op, ranks, seed)
        except ValueError:
            assert op == "avg"


@EVERY_OP
def test_a_stale_buffer_is_found(type_: Type, op: str) -> None:
    """The result of the check before."""
    for pattern in patterns(type_, op, seed=8):
        for kind in (REDUCED, MOVED):
            before = type_.filled(type_.pattern(op, pattern.ranks, seed=7), ELEMENTS, kind)
            assert type_.checked(before, pattern, kind).wrong > 0.2 * ELEMENTS


@EVERY_OP
def test_exchanged_blocks_of_a_reduce_scatter_are_found(type_: Type, op: str) -> None:
    """Rank 0 holds the block of its neighbour, or of the last rank."""
    for pattern in patterns(type_, op):
        for owner in {1, pattern.ranks - 1}:
            words = type_.filled(pattern, ELEMENTS, REDUCED, first_index=owner * ELEMENTS)
            assert type_.checked(words, pattern, REDUCED, first_index=owner * ELEMENTS).wrong == 0
            assert type_.checked(words, pattern, REDUCED).wrong > 0.2 * ELEMENTS


@EVERY_OP
def test_one_flipped_bit_is_found(type_: Type, op: str) -> None:
    """Every bit; only a mean from one contributor may differ in the last."""
    for pattern in patterns(type_, op):
        is_rounded = op == "avg" and type_.is_float and pattern.ranks & (pattern.ranks - 1) != 0
        words = type_.filled(pattern, 1000, REDUCED)
        for bit in range(8 * words.itemsize):
            position = (bit * 1303 + 41) % len(words)
            words[position] ^= type_.word(1 << bit)
            found = type_.checked(words, pattern, REDUCED)
            assert found.wrong == (0 if is_rounded and bit == 0 else 1)
            words[position] ^= type_.word(1 << bit)


@EVERY_OP
def test_the_complement_is_wrong_in_every_element(type_: Type, op: str) -> None:
    """What an element holds before the call can never pass for the result, even off by one place."""
    for pattern, kind in product(patterns(type_, op), (CONTRIBUTION, REDUCED, MOVED)):
        words = type_.filled(pattern, 3000, kind, rank=1)
        poison = type_.filled(pattern, 3000, kind | COMPLEMENT, rank=1)
        assert np.array_equal(poison, ~words)
        assert type_.checked(poison, pattern, kind, rank=1).wrong == 3000
        words[1234] = poison[1234]
        found = type_.checked(words, pattern, kind, rank=1)
        assert (found.wrong, found.first_wrong) == (1, 1234)
