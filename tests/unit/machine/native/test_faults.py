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
ALTERED = 300  # elements that a fault is worked out for, of those that it alters
RANKS = (2, 3, 64, 2160)
EVERY_OP = pytest.mark.parametrize("op", ["sum", "prod", "max", "min", "avg", "mulsum"])


def patterns(type_: Type, op: str, seed: int = 7) -> Iterator[Any]:
    """For all numbers of ranks that there are data for (test_avg_and_mulsum.py has which)."""
    for ranks in RANKS:
        try:
            yield type_.pattern(op, ranks, seed)
        except ValueError:
            assert op == "avg"


def wide(type_: Type, words: Array) -> Array:
    """Values in arithmetic that is exact for them: binary64, or 64-bit integers that wrap around."""
    kind = type_.decode(words).dtype.kind
    values: Array = type_.decode(words).astype({"f": np.float64, "i": np.int64, "u": np.uint64}[kind])
    return values


def effect(type_: Type, op: str, pattern: Any, rank: int) -> Array:
    """What a rank's contribution adds to the result (prod: what it is multiplied with)."""
    contribution = wide(type_, type_.filled(pattern, ELEMENTS, CONTRIBUTION, rank=rank))
    if op == "mulsum":
        return contribution * contribution.dtype.type(2 if rank % 2 == 0 else 1)
    if op != "avg":
        return contribution
    if not type_.is_float:
        return contribution // contribution.dtype.type(pattern.ranks)
    if pattern.group < pattern.ranks or pattern.ranks & (pattern.ranks - 1) == 0:
        return contribution / pattern.ranks
    mean = wide(type_, type_.filled(pattern, ELEMENTS, REDUCED))
    return np.where(contribution != 0, mean, 0)


@pytest.mark.parametrize("op", ["sum", "prod", "avg", "mulsum"])
def test_a_rank_dropped_or_counted_twice_is_found(type_: Type, op: str) -> None:
    for pattern in patterns(type_, op):
        expected = type_.filled(pattern, ELEMENTS, REDUCED)
        for rank in {0, pattern.ranks // 2, pattern.ranks - 1}:
            part = effect(type_, op, pattern, rank)
            altered = np.flatnonzero(part != (op == "prod"))[:ALTERED]
            assert len(altered) > 0
            result, part = wide(type_, expected[altered]), part[altered]
            with np.errstate(over="ignore"):
                if op != "prod":
                    outcomes = (result - part, result + part)
                else:
                    outcomes = (result / part if type_.is_float else result // part, result * part)
                for outcome in outcomes:
                    words = expected.copy()
                    words[altered] = type_.encode(outcome)
                    assert type_.checked(words, pattern, REDUCED).wrong == len(altered)


@pytest.mark.parametrize("op", ["max", "min"])
def test_an_extreme_that_is_left_out_is_found(type_: Type, op: str) -> None:
    for pattern in patterns(type_, op):
        expected = type_.filled(pattern, ELEMENTS, REDUCED)
        for rank in {0, pattern.ranks // 2, pattern.ranks - 1}:
            own = type_.filled(pattern, ELEMENTS, CONTRIBUTION, rank=rank)
            next_rank = type_.filled(pattern, ELEMENTS, CONTRIBUTION, rank=(rank + 1) % pattern.ranks)
            decided = own == expected
            assert decided.sum() > 0.3 * ELEMENTS / pattern.ranks
            words = np.where(decided, next_rank, expected)
            assert type_.checked(words, pattern, REDUCED).wrong == decided.sum()


@EVERY_OP
def test_a_stale_buffer_is_found(type_: Type, op: str) -> None:
    """The result of the check before, and a buffer into which nothing was written."""
    for pattern in patterns(type_, op, seed=8):
        for kind in (REDUCED, MOVED):
            before = type_.filled(type_.pattern(op, pattern.ranks, seed=7), ELEMENTS, kind)
            assert type_.checked(before, pattern, kind).wrong > 0.2 * ELEMENTS
            poison = type_.filled(pattern, ELEMENTS, kind | COMPLEMENT)
            assert type_.checked(poison, pattern, kind).wrong == ELEMENTS


@EVERY_OP
def test_exchanged_blocks_of_a_reduce_scatter_are_found(type_: Type, op: str) -> None:
    """Rank 0 holds the block of its neighbour, or of the last rank."""
    for pattern in patterns(type_, op):
        for owner in {1, pattern.ranks - 1}:
            words = type_.filled(pattern, ELEMENTS, REDUCED, first_index=owner * ELEMENTS)
            assert type_.checked(words, pattern, REDUCED, first_index=owner * ELEMENTS).wrong == 0
            assert type_.checked(words, pattern, REDUCED).wrong > 0.2 * ELEMENTS


def test_exchanged_ranks_of_moved_data_are_found(type_: Type) -> None:
    for pattern in patterns(type_, "sum"):
        for first, second in ((0, 1), (0, pattern.ranks - 1), (pattern.ranks - 2, pattern.ranks - 1)):
            words = type_.filled(pattern, ELEMENTS, MOVED, rank=first)
            assert type_.checked(words, pattern, MOVED, rank=second).wrong > 0.99 * ELEMENTS


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
