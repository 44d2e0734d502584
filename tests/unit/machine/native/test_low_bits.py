"""Contributions that have lost their low bits: every type and operation shows it, in every order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

Array = npt.NDArray[Any]
Type = Any  # conftest.Type
NativeOps = Any  # conftest.NativeOps

REDUCED = 1
ELEMENTS = 512
RANKS = (2, 3, 4, 7, 8)
# Bits of the mantissa that are left: those of bfloat16, or half of what a narrower type has.
KEPT = {"float": 7, "double": 7, "half": 5, "bfloat16": 3, "f8e4m3": 2, "f8e5m2": 1}
MANTISSA = {"float": 23, "double": 52, "half": 10, "bfloat16": 7, "f8e4m3": 3, "f8e5m2": 2}
SUMS = ("sum", "mulsum", "avg")


def cut(type_: Type, words: Array, bits: int) -> Array:
    return words & ~type_.word((1 << bits) - 1)


def wrong(type_: Type, op: str, rows: Array, pattern: Any, ops: NativeOps) -> int:
    step = "sum" if op in ("avg", "mulsum") else op
    with np.errstate(over="ignore"):
        words = type_.encode(type_.reduce_in_tree(step, type_.decode(rows), np.random.default_rng(len(rows))))
    if op == "avg":
        words = ops.scaled(type_, "avg", words, 0, len(rows))
    found: int = type_.checked(words, pattern, REDUCED).wrong
    return found


def brought(type_: Type, op: str, ranks: int, ops: NativeOps) -> tuple[Any, Array]:
    pattern = type_.pattern(op, ranks)
    rows = type_.contributions(pattern, ELEMENTS)
    if op == "mulsum":
        rows = np.array([ops.scaled(type_, op, row, rank, ranks) for rank, row in enumerate(rows)])
    return pattern, rows


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min", "avg", "mulsum"])
def test_a_cut_mantissa_of_every_contribution_shows(type_: Type, op: str, ops: NativeOps) -> None:
    if not type_.is_float:
        pytest.skip("integers have no mantissa")
    lost = MANTISSA[type_.name] - KEPT[type_.name]
    for ranks in RANKS:
        pattern, rows = brought(type_, op, ranks, ops)
        assert wrong(type_, op, rows, pattern, ops) == 0
        # The sums of 8-bit floats are exact because the contributions have fewer bits than the type.
        if op not in SUMS or type_.word is not np.uint8:
            assert wrong(type_, op, cut(type_, rows, lost), pattern, ops) > 0, ranks


@pytest.mark.parametrize("op", ["prod", "avg"])
@pytest.mark.parametrize("name", ["float", "double"])
def test_products_and_means_of_wide_floats_show_it_in_every_element(
    name: str, op: str, types: dict[str, Type], ops: NativeOps
) -> None:
    type_ = types[name]
    for ranks in RANKS:
        pattern, rows = brought(type_, op, ranks, ops)
        shown = wrong(type_, op, cut(type_, rows, MANTISSA[name] - 7), pattern, ops)
        assert shown > 0.9 * ELEMENTS, ranks


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min", "avg"])
def test_a_low_bit_that_integers_lose_shows(type_: Type, op: str, ops: NativeOps) -> None:
    if type_.is_float:
        pytest.skip("floats have a mantissa")
    for ranks in RANKS:
        pattern, rows = brought(type_, op, ranks, ops)
        assert wrong(type_, op, rows, pattern, ops) == 0
        if op == "avg" and type_.word is np.uint8 and ranks in (4, 8):
            continue  # no room for a remainder: the contributions are multiples of the ranks' number
        assert wrong(type_, op, cut(type_, rows, 1), pattern, ops) > 0, ranks


@pytest.mark.parametrize("bits", [1, 8, 12])
def test_the_rank_that_brings_all_bits_of_a_product_shows_what_it_loses(
    bits: int, types: dict[str, Type], ops: NativeOps
) -> None:
    type_ = types["float"]
    pattern, rows = brought(type_, "prod", 4, ops)
    for rank in range(4):
        altered = rows.copy()
        altered[rank] = cut(type_, rows[rank], bits)
        assert 0.15 * ELEMENTS < wrong(type_, "prod", altered, pattern, ops) < 0.35 * ELEMENTS
