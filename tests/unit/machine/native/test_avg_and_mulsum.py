"""avg and the premultiplied sum: right in every order and way of computing, and refused where no data are."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

Array = npt.NDArray[Any]
Type = Any  # conftest.Type
NativeOps = Any  # conftest.NativeOps

CONTRIBUTION, REDUCED = 0, 1
RANKS = (1, 2, 3, 5, 8, 63, 64, 127, 128, 1000, 1024, 2160)


def sum_in_tree(type_: Type, rows: Array, random: np.random.Generator) -> Array:
    """Words of the sum of the rows, pairwise in a random tree, in the type's own arithmetic."""
    words: Array = type_.encode(type_.reduce_in_tree("sum", type_.decode(rows), random))
    return words


def scaled_first(type_: Type, rows: Array) -> Array:
    """NCCL's way: each contribution times 1 / ranks, both rounded to the element type."""
    reciprocal = type_.decode(type_.encode(np.array([1 / len(rows)])))
    words: Array = type_.encode(type_.apply("prod", type_.decode(rows), reciprocal))
    return words


def has_no_mean(type_: Type, ranks: int) -> bool:
    """Small integers leave 0 or 1; 1 / ranks is a subnormal of f8e4m3 above 64, and 0 from 1024 on."""
    power_of_two = ranks & (ranks - 1) == 0
    return {
        "int8": ranks > 63,
        "uint8": ranks > 127,
        "f8e4m3": ranks > 512 or (ranks > 64 and not power_of_two),
    }.get(type_.name, False)


def test_avg_is_right_in_every_order_and_way(type_: Type, ops: NativeOps) -> None:
    random = np.random.default_rng(2)
    for ranks in RANKS:
        if has_no_mean(type_, ranks):
            with pytest.raises(ValueError, match="no check data"):
                type_.pattern("avg", ranks)
            continue
        pattern = type_.pattern("avg", ranks, seed=ranks)
        rows = type_.contributions(pattern, 64)
        outcomes = [ops.scaled(type_, "avg", sum_in_tree(type_, rows, random), 0, ranks)]
        if type_.is_float:
            outcomes.append(sum_in_tree(type_, scaled_first(type_, rows), random))
        for outcome in outcomes:
            assert type_.checked(outcome, pattern, REDUCED).wrong == 0, ranks
        assert np.array_equal(outcomes[0], type_.filled(pattern, 64, REDUCED)), ranks


@pytest.mark.parametrize("op", ["sum", "prod", "avg", "mulsum"])
def test_no_partial_result_leaves_the_type(type_: Type, op: str) -> None:
    """Integers would hide an overflow by wrapping around: look at the magnitudes in binary64."""
    if type_.format is not None:
        limit = type_.format.values()[-2]
    else:
        limit = np.finfo(type_.value).max if type_.is_float else np.iinfo(type_.value).max
    for ranks in RANKS:
        if op == "avg" and has_no_mean(type_, ranks):
            continue
        values = type_.decode(type_.contributions(type_.pattern(op, ranks), 64)).astype(np.float64)
        if op == "mulsum":
            values[::2] *= 2
        total = np.abs(values).prod(0) if op == "prod" else np.abs(values).sum(0)
        assert total.max() <= float(limit)


@pytest.mark.parametrize(
    ("name", "most"), [("int8", 63), ("uint8", 127), ("int16", 16383), ("uint16", 32767)]
)
def test_how_many_ranks_an_integer_avg_can_be_checked_for(
    name: str, most: int, types: dict[str, Type]
) -> None:
    assert types[name].pattern("avg", most).ranks == most
    with pytest.raises(ValueError, match="no check data"):
        types[name].pattern("avg", most + 1)


@pytest.mark.parametrize(
    ("name", "ranks"), [("f8e4m3", 62), ("f8e4m3", 63), ("f8e5m2", 16383), ("half", 16383)]
)
def test_one_contributors_mean_is_right_up_to_the_most_ranks(
    name: str, ranks: int, types: dict[str, Type], ops: NativeOps
) -> None:
    type_ = types[name]
    pattern = type_.pattern("avg", ranks)
    expected = type_.decode(type_.filled(pattern, 4000, REDUCED))
    exponents = np.rint(np.log2(np.abs(expected) * ranks)).astype(int)
    assert set(exponents) == set(range(1 << pattern.modulus_log2))
    powers = np.copysign(np.ldexp(1.0, exponents), expected)
    for words in (type_.encode(powers / ranks), ops.scaled(type_, "avg", type_.encode(powers), 0, ranks)):
        assert np.array_equal(type_.decode(words), expected)
    with pytest.raises(ValueError, match="no check data"):
        type_.pattern("avg", 65 if name == "f8e4m3" else 16385)


def test_a_mean_of_one_contributor_may_be_off_by_one_place(type_: Type) -> None:
    if not type_.is_float:
        pytest.skip("integers are exact")
    pattern = type_.pattern("avg", 7)
    words = type_.filled(pattern, 1000, REDUCED)
    clean = type_.checked(words, pattern, REDUCED)
    for difference in (1, -1):
        neighbours = words + type_.word(difference % 2 ** (8 * words.itemsize))
        found = type_.checked(neighbours, pattern, REDUCED)
        assert found.wrong == 0
        assert found.digest != clean.digest
        assert type_.checked(neighbours + neighbours - words, pattern, REDUCED).wrong == 1000


def test_the_ranks_scalars_are_two_and_one_in_turn(type_: Type, ops: NativeOps) -> None:
    for rank in range(4):
        assert type_.decode(ops.premul_scalar(type_, rank))[0] == (2 if rank % 2 == 0 else 1)
    pattern = type_.pattern("mulsum", 4)
    stored = type_.decode(type_.contributions(pattern, 200))
    effective = stored * np.array([[2], [1], [2], [1]], stored.dtype)
    assert np.array_equal(
        effective.sum(0, dtype=stored.dtype), type_.decode(type_.filled(pattern, 200, REDUCED))
    )


@pytest.mark.parametrize("name", ["int16", "uint16", "int32", "uint32", "int64", "uint64", "float", "double"])
def test_a_mean_over_the_others_shows(name: str, types: dict[str, Type]) -> None:
    """A rank takes no part and is not counted: the sum's data would hide one whose value is the mean."""
    type_ = types[name]
    kind, mean = (np.float64, np.divide) if type_.is_float else (object, np.floor_divide)
    for ranks in (2, 4, 8, 16) if type_.is_float else (3, 4, 7, 16, 63):
        pattern = type_.pattern("avg", ranks, seed=5)
        brought = type_.decode(type_.contributions(pattern, 1 << 14)).astype(kind)
        expected = type_.decode(type_.filled(pattern, 1 << 14, REDUCED)).astype(kind)
        total = brought.sum(0)
        assert (mean(total, ranks) == expected).all()
        for own in brought:
            assert (mean(total - own, ranks - 1) != expected).mean() > 0.1, ranks


@pytest.mark.parametrize("ranks", [2, 8, 65])
def test_wrong_scalars_show(type_: Type, ranks: int, ops: NativeOps) -> None:
    pattern = type_.pattern("mulsum", ranks)
    rows = type_.contributions(pattern, 4096)
    right = [rank % 2 for rank in range(ranks)]  # busbw_scale multiplies by 2 for 0, by 1 for 1
    all_forgotten, one_forgotten, exchanged = [1] * ranks, [1, *right[1:]], [1 - parity for parity in right]
    for parities in (right, all_forgotten, one_forgotten, exchanged):
        scaled = [
            ops.scaled(type_, "mulsum", row, parity, 2) for row, parity in zip(rows, parities, strict=True)
        ]
        outcome = sum_in_tree(type_, np.array(scaled), np.random.default_rng(3))
        wrong = type_.checked(outcome, pattern, REDUCED).wrong
        assert wrong == 0 if parities is right else wrong > 4096 * 0.5 / pattern.group


def test_an_avg_that_is_not_divided_shows_in_every_element(type_: Type, ops: NativeOps) -> None:
    for ranks in (3, 8, 60):
        pattern = type_.pattern("avg", ranks)
        rows = type_.contributions(pattern, 512)
        total = sum_in_tree(type_, rows, np.random.default_rng(4))
        assert type_.checked(total, pattern, REDUCED).wrong == 512
        by_fewer = ops.scaled(type_, "avg", total, 0, ranks // 2)
        assert type_.checked(by_fewer, pattern, REDUCED).wrong == 512
