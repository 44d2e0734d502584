"""Faults of a reduction, carried out: up to 2160 ranks reduce in a random tree, in the type's own arithmetic,
with one of them left out, counted twice or in another's place. All are found, in every type and operation.

A message has 64 Ki elements. Only those are reduced that the fault can alter, and some others: elsewhere the
rank adds 0 or multiplies by 1. test_faults.py has the faults that are no reduction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
Type = Any  # conftest.Type
NativeOps = Any  # conftest.NativeOps

CONTRIBUTION, REDUCED = 0, 1
ELEMENTS = 1 << 16
ALTERED, OTHERS = 96, 16  # elements that are reduced
FEW_RANKS = (2, 5, 8, 65)
MANY_RANKS = (127, 2160)
EVERY_OP = pytest.mark.parametrize("op", ["sum", "prod", "max", "min", "avg", "mulsum"])


@dataclass
class Reduction:
    """One reduction of a message over all ranks of ``pattern``, of which parts are carried out."""

    type_: Type
    op: str
    pattern: Any
    ops: NativeOps

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.pattern.ranks)
        self.expected: Array = self.type_.filled(self.pattern, ELEMENTS, REDUCED)

    def brought(self, rank: int, scalar_of: int | None = None) -> Array:
        """What a rank brings, words of shape (ELEMENTS,); a premultiplied sum with the scalar of a rank."""
        words: Array = self.type_.filled(self.pattern, ELEMENTS, CONTRIBUTION, rank=rank)
        if self.op != "mulsum":
            return words
        owner = rank if scalar_of is None else scalar_of
        scaled: Array = self.ops.scaled(self.type_, "mulsum", words, owner, self.pattern.ranks)
        return scaled

    def counts(self, words: Array) -> Mask:
        """Where what a rank brings decides the result, shape (ELEMENTS,)."""
        if self.op in ("max", "min"):
            extreme: Mask = words == self.expected
            return extreme
        neutral: Mask = self.type_.decode(words) != (self.op == "prod")
        return neutral

    def outcome(self, rows: Array) -> Array:
        """Words of the reduction of ``rows``, shape (ranks that took part, elements)."""
        step = self.op if self.op in ("prod", "max", "min") else "sum"
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # a factor too many may overflow: that is wrong too
            total = self.type_.encode(self.type_.reduce_in_tree(step, self.type_.decode(rows), self.random))
        if self.op != "avg":
            words: Array = total
            return words
        mean: Array = self.ops.scaled(self.type_, "avg", total, 0, self.pattern.ranks)
        return mean

    def wrong(self, places: Array, rows: Array) -> int:
        """How many elements busbw's check finds in a message with these ``rows`` at these ``places``."""
        words = self.expected.copy()
        words[places] = self.outcome(rows)
        found: int = self.type_.checked(words, self.pattern, REDUCED).wrong
        return found


def places_of(altered: Mask) -> Array:
    """Some elements that a fault alters, all of them where they are few, and some that it leaves."""
    return np.concatenate([np.flatnonzero(altered)[:ALTERED], np.flatnonzero(~altered)[:OTHERS]])


def gathered(reduction: Reduction, places: Array) -> Array:
    """What all ranks bring at these places, shape (ranks, places); every rank decides some of the message."""
    rows = []
    for rank in range(reduction.pattern.ranks):
        words = reduction.brought(rank)
        assert reduction.counts(words).any(), rank
        rows.append(words[places])
    return np.array(rows)


def show_faults(reduction: Reduction) -> None:
    """Two ranks: the first is left out, counted twice, in the place of the second."""
    first, second = map(int, reduction.random.permutation(reduction.pattern.ranks)[:2])
    own, replaced = reduction.brought(first), reduction.brought(second)
    is_extreme = reduction.op in ("max", "min")
    decides = reduction.counts(own)
    differs = reduction.counts(replaced) if is_extreme else own != replaced
    places = np.unique(np.concatenate([places_of(decides), places_of(differs)]))
    rows = gathered(reduction, places)
    assert reduction.wrong(places, rows) == 0
    assert reduction.wrong(places, np.delete(rows, first, 0)) == decides[places].sum() > 0
    twice = np.concatenate([rows, rows[first : first + 1]])
    assert reduction.wrong(places, twice) == (0 if is_extreme else decides[places].sum())
    rows[second] = own[places]
    assert reduction.wrong(places, rows) == differs[places].sum() > 0
    if reduction.op == "mulsum":
        show_data_under_anothers_scalar(reduction, first, second, places, rows)


def show_data_under_anothers_scalar(
    reduction: Reduction, first: int, second: int, places: Array, rows: Array
) -> None:
    """The first's data in the place of the second, before the scalars. They may become an odd number, which
    an 8-bit float rounds to the right sum here and there.
    """
    rows[second] = reduction.brought(first, scalar_of=second)[places]
    altered = (rows[second] != reduction.brought(second)[places]).sum()
    is_exact = reduction.type_.word is not np.uint8 or not reduction.type_.is_float
    assert reduction.wrong(places, rows) >= (altered if is_exact else altered // 2) > 0


def show_all(type_: Type, op: str, ops: NativeOps, numbers: tuple[int, ...]) -> None:
    for ranks in numbers:
        try:
            pattern = type_.pattern(op, ranks, seed=ranks)
        except ValueError:  # test_avg_and_mulsum.py has which, and that nothing else is refused
            assert op == "avg"
            continue
        show_faults(Reduction(type_, op, pattern, ops))


@EVERY_OP
def test_faults_of_few_ranks_are_found(type_: Type, op: str, ops: NativeOps) -> None:
    show_all(type_, op, ops, FEW_RANKS)


@pytest.mark.slow
@EVERY_OP
def test_faults_of_many_ranks_are_found(type_: Type, op: str, ops: NativeOps) -> None:
    show_all(type_, op, ops, MANY_RANKS)
