"""Arithmetic of types that MPI lacks, against binary64 rounded once by tables of all values."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

Array = npt.NDArray[Any]
Type = Any  # conftest.Type
NativeOps = Any  # conftest.NativeOps

EVERY_OP = pytest.mark.parametrize("op", ["sum", "prod", "max", "min"])


@cache
def samples(type_: Type, count: int = 1 << 16) -> tuple[Array, Array]:
    """Pairs of words: all there are of 8-bit types; else random ones, and all pairs of special values."""
    if type_.word is np.uint8:
        pairs = np.arange(1 << 16)
        return (pairs >> 8).astype(np.uint8), (pairs & 0xFF).astype(np.uint8)
    random = np.random.default_rng(5)
    codes, sign = type_.format.codes, type_.format.sign
    normal = 1 << type_.format.mantissa_bits
    edges = np.array(
        [0, 1, 2, 3, normal - 1, normal, normal + 1, codes - 2, codes - 1, codes, codes + 1, sign - 1]
    )
    one = int(type_.encode(np.array([1.0]))[0])
    edges = np.concatenate([edges, one + np.arange(-3, 4), random.integers(0, codes, 60)])
    edges = np.concatenate([edges, edges + sign]).astype(type_.word)
    near = random.integers(0, 1 << 16, (2, count)).astype(type_.word)
    near[1, ::2] = near[0, ::2] + random.integers(-3 * normal, 3 * normal, count // 2).astype(type_.word)
    left, right = (grid.ravel() for grid in np.meshgrid(edges, edges))
    factors, cofactors = tiny_products(type_, random)
    return np.concatenate([near[0], left, factors]), np.concatenate([near[1], right, cofactors])


def tiny_products(type_: Type, random: np.random.Generator) -> tuple[Array, Array]:
    """Pairs whose product is a few of the smallest subnormals, where binary32 is short of bits too."""
    smallest = type_.format.values()[1]
    middle = round(np.log2(smallest) / 2)  # so that both factors are normal numbers, with all their digits
    factors = np.ldexp(random.uniform(1, 2, 1 << 17), middle)
    factors = type_.format.decode(type_.encode(factors))
    cofactors = type_.encode(smallest * np.exp2(random.uniform(-1, 3, len(factors))) / factors)
    return type_.encode(factors), cofactors


def same(type_: Type, actual: Array, expected: Array) -> bool:
    """Equal bits, any NaN being as good as another."""
    is_nan = np.isnan(type_.format.decode(expected))
    return bool(np.all(np.where(is_nan, np.isnan(type_.format.decode(actual)), actual == expected)))


def reference(type_: Type, op: str, left: Array, right: Array) -> Array:
    """Words of ``left op right``. A sum or product in binary64 has digits enough to be rounded again."""
    a, b = type_.format.decode(left), type_.format.decode(right)
    with np.errstate(all="ignore"):
        if op in ("sum", "prod"):
            return type_.encode(a + b if op == "sum" else a * b)
        nan = np.isnan(a) | np.isnan(b)
        before = (a < b) | ((a == b) & np.signbit(a) & ~np.signbit(b))
        chosen = np.where(before == (op == "min"), left, right)
        return np.where(nan, type_.encode(np.array([np.nan]))[0], chosen).astype(type_.word)


@EVERY_OP
def test_a_reduction_is_rounded_once(narrow: Type, op: str, ops: NativeOps) -> None:
    left, right = samples(narrow)
    expected = reference(narrow, op, left, right)
    assert same(narrow, ops.reduced(narrow, op, left, right), expected)
    assert same(narrow, ops.reduced(narrow, op, left, right, large=True), expected)


@EVERY_OP
@pytest.mark.parametrize("count", [0, 63, 64, 65, 200])
def test_a_reduction_touches_its_elements_only(narrow: Type, op: str, count: int, ops: NativeOps) -> None:
    left, right = (words[:count] for words in samples(narrow))
    room = np.full(count + 8, 0x5A, narrow.word)
    room[:count] = right
    inner = ctypes.c_int(count)
    signature = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int), ctypes.c_void_p
    )
    number = {"sum": 0, "prod": 1, "max": 2, "min": 3}[op]
    function = signature(ops.library.busbw_mpi_user_function(narrow.number, number, 0))
    function(left.ctypes.data, room.ctypes.data, ctypes.byref(inner), None)
    assert same(narrow, room[:count], reference(narrow, op, left, right))
    assert np.all(room[count:] == 0x5A)


def test_only_the_types_that_mpi_lacks_have_reductions(type_: Type, ops: NativeOps) -> None:
    expected = type_.format is not None
    assert [ops.has_reduction(type_.number, number) for number in range(-1, 6)] == [
        False,
        *[expected] * 4,
        False,
        False,
    ]


@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 64, 1000, 2160, 4095, 4096, 65_537, (1 << 24) - 1])
def test_an_avg_is_divided_correctly(type_: Type, ranks: int, ops: NativeOps) -> None:
    random = np.random.default_rng(ranks)
    if type_.word in (np.uint8, np.uint16):
        words = np.arange(1 << (8 * type_.word(0).itemsize)).astype(type_.word)
    else:
        words = random.integers(0, 1 << 62, 5000).view(np.uint8).view(type_.word)
        words[:4] = [0, 1, np.iinfo(type_.word).max, 1 << (8 * words.itemsize - 1)]
    actual = ops.scaled(type_, "avg", words, 0, ranks)
    if type_.format is not None:
        with np.errstate(invalid="ignore"):
            assert same(type_, actual, type_.encode(type_.format.decode(words) / ranks))
    elif type_.is_float:
        with np.errstate(all="ignore"):
            expected = words.view(type_.value) / type_.value(ranks)
        assert np.array_equal(actual.view(type_.value), expected, equal_nan=True)
    else:
        values = [int(value) for value in words.view(type_.value)]
        expected = [abs(value) // ranks * (1 if value >= 0 else -1) for value in values]
        assert actual.view(type_.value).tolist() == expected


def test_mulsum_doubles_on_even_ranks_only(type_: Type, ops: NativeOps) -> None:
    words = np.random.default_rng(6).integers(0, 1 << 62, 1000).view(np.uint8).view(type_.word)
    assert np.array_equal(ops.scaled(type_, "mulsum", words, 1, 2), words)
    doubled = ops.scaled(type_, "mulsum", words, 2, 3)
    with np.errstate(all="ignore"):
        if type_.format is not None:
            assert same(type_, doubled, type_.encode(2 * type_.format.decode(words)))
        elif type_.is_float:
            values = words.view(type_.value)
            assert np.array_equal(doubled.view(type_.value), values + values, equal_nan=True)
        else:
            assert np.array_equal(doubled, words + words)


def test_scaling_into_another_buffer_leaves_the_first_alone(type_: Type, ops: NativeOps) -> None:
    words = type_.contributions(type_.pattern("sum", 3), 77)[0]
    before = words.copy()
    for op, number in (("avg", 4), ("mulsum", 5)):
        for rank in (0, 1):
            out = np.full(80, 0x5A, type_.word)
            arguments = (type_.number, number, words.ctypes.data, out.ctypes.data, 77, rank, 3)
            assert ops.library.busbw_scale(*arguments) == 0
            assert np.array_equal(out[:77], ops.scaled(type_, op, words, rank, 3))
            assert np.all(out[77:] == 0x5A)
    assert np.array_equal(words, before)


@pytest.mark.parametrize(
    "arguments",
    [{"number": 14}, {"op": 0}, {"count": -1}, {"rank": 4}, {"ranks": (1 << 24) + 1}, {"into": None}],
)
def test_scaling_that_makes_no_sense_is_refused(arguments: dict[str, Any], ops: NativeOps) -> None:
    words = np.zeros(4, np.uint32)
    given = {"number": 7, "op": 4, "from": words.ctypes.data, "into": words.ctypes.data, "count": 4}
    given |= {"rank": 0, "ranks": 4} | arguments
    assert ops.library.busbw_scale(*given.values()) == -1
    assert ops.library.busbw_premul_scalar(14, 0, ctypes.c_void_p(words.ctypes.data)) == -1
