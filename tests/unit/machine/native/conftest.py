"""Element types as tests see them: numbers, words, and arithmetic that rounds as the type does."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from busbw.machine.native import core

Array = npt.NDArray[Any]
Float64Array = npt.NDArray[np.float64]

OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4, "mulsum": 5}
CONTRIBUTION, REDUCED, MOVED = 0, 1, 2


@dataclass(frozen=True)
class NarrowFloat:
    """A float below 32 bits. Arithmetic on it is binary64's, rounded once (nearest, ties to even)."""

    exponent_bits: int
    mantissa_bits: int
    codes: int  # finite non-negative values, code 0 being 0.0; the next code is infinity, or e4m3's NaN
    saturates: bool

    @property
    def sign(self) -> int:
        return 1 << (self.exponent_bits + self.mantissa_bits)

    @cache  # noqa: B019 - four instances, for the life of the process
    def values(self) -> Float64Array:
        """Of all finite codes, and the number that would follow."""
        code = np.arange(self.codes + 1)
        exponent, mantissa = code >> self.mantissa_bits, code & ((1 << self.mantissa_bits) - 1)
        bias = (1 << (self.exponent_bits - 1)) - 1
        fraction = mantissa / (1 << self.mantissa_bits) + (exponent > 0)
        values: Float64Array = np.ldexp(fraction, np.maximum(exponent, 1) - bias)
        return values

    @cache  # noqa: B019
    def _decoded(self) -> Float64Array:
        positive = np.full(self.sign, np.nan)
        positive[: self.codes] = self.values()[:-1]
        if not (self.saturates and self.mantissa_bits == 3):  # e4m3 has no infinity
            positive[self.codes] = np.inf
        return np.concatenate([positive, -positive])

    def decode(self, words: Array) -> Float64Array:
        return self._decoded()[words]

    def encode(self, values: Float64Array) -> Array:
        """The codes of values rounded to the format; what is too large saturates or becomes infinity."""
        table, magnitude = self.values(), np.abs(values)
        above = np.clip(np.searchsorted(table, magnitude), 1, self.codes)
        to_low, to_high = magnitude - table[above - 1], table[above] - magnitude
        take_low = (to_low < to_high) | ((to_low == to_high) & ((above - 1) % 2 == 0))
        code = np.where(take_low, above - 1, above)
        code = np.where(np.isinf(magnitude), self.codes, code)
        if self.saturates:
            code = np.minimum(code, self.codes - 1)
        code = np.where(np.isnan(values), self.sign - 1, code)
        return code + np.where(np.signbit(values), self.sign, 0)


@dataclass(frozen=True)
class Type:
    """An element type. ``format`` is given for floats below 32 bits, ``value`` where numpy has the type."""

    name: str
    number: int
    word: type[np.unsignedinteger[Any]]
    value: Any = None
    format: NarrowFloat | None = None

    @property
    def is_float(self) -> bool:
        return self.format is not None or np.issubdtype(self.value, np.floating)

    def decode(self, words: Array) -> Array:
        """Values: binary64 where numpy lacks the type."""
        if self.value is None:
            assert self.format is not None
            return self.format.decode(words)
        return words.view(self.value)

    def encode(self, values: Array) -> Array:
        """Words of values, rounded to the type; integers wrap around."""
        if self.format is not None:
            return self.format.encode(np.asarray(values, np.float64)).astype(self.word)
        return np.asarray(values).astype(self.value).view(self.word)

    def apply(self, op: str, left: Array, right: Array) -> Array:
        """One step of a reduction on decoded values."""
        functions = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
        result: Array = functions[op](left, right)
        if self.value is None:
            assert self.format is not None
            return self.format.decode(self.format.encode(result))
        return result

    def reduce_in_tree(self, op: str, values: Array, random: np.random.Generator) -> Array:
        """Reduce the rows of ``values`` pairwise in a random tree, in the type's own arithmetic."""
        while len(values) > 1:
            values = values[random.permutation(len(values))]
            pairs = int(random.integers((len(values) + 3) // 4, len(values) // 2 + 1))
            joined = self.apply(op, values[:pairs], values[pairs : 2 * pairs])
            values = np.concatenate([joined, values[2 * pairs :]])
        total: Array = values[0]
        return total

    def pattern(self, op: str, ranks: int, seed: int = 7) -> core.Pattern:
        return core.pattern(seed, ranks, self.number, OPS[op])

    def filled(
        self, pattern: core.Pattern, count: int, kind: int, *, rank: int = 0, first_index: int = 0
    ) -> Array:
        words = np.zeros(count, self.word)
        core.fill(words.ctypes.data, pattern, core.Region(0, count, first_index, kind, rank))
        return words

    def contributions(self, pattern: core.Pattern, count: int, first_index: int = 0) -> Array:
        """Words of shape (ranks, count)."""
        words = np.zeros((pattern.ranks, count), self.word)
        region = core.Region(0, count, first_index, CONTRIBUTION, 0)
        for rank in range(pattern.ranks):
            region.rank = rank
            core.fill(words[rank].ctypes.data, pattern, region)
        return words

    def checked(
        self, words: Array, pattern: core.Pattern, kind: int, *, rank: int = 0, first_index: int = 0
    ) -> core.CheckResult:
        result = core.new_check_result()
        core.check(words.ctypes.data, pattern, core.Region(0, len(words), first_index, kind, rank), result)
        return result


TYPES = {
    type_.name: type_
    for type_ in (
        Type("int8", 0, np.uint8, np.int8),
        Type("uint8", 1, np.uint8, np.uint8),
        Type("int32", 2, np.uint32, np.int32),
        Type("uint32", 3, np.uint32, np.uint32),
        Type("int64", 4, np.uint64, np.int64),
        Type("uint64", 5, np.uint64, np.uint64),
        Type("half", 6, np.uint16, np.float16, NarrowFloat(5, 10, 0x7C00, saturates=False)),
        Type("float", 7, np.uint32, np.float32),
        Type("double", 8, np.uint64, np.float64),
        Type("bfloat16", 9, np.uint16, None, NarrowFloat(8, 7, 0x7F80, saturates=False)),
        Type("f8e4m3", 10, np.uint8, None, NarrowFloat(4, 3, 0x7F, saturates=True)),
        Type("f8e5m2", 11, np.uint8, None, NarrowFloat(5, 2, 0x7C, saturates=True)),
        Type("int16", 12, np.uint16, np.int16),
        Type("uint16", 13, np.uint16, np.uint16),
    )
}


class NativeOps:
    """user_ops.hpp through ctypes, on words."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(str(core.LIBRARY_PATH))
        self.library.busbw_mpi_user_function.restype = ctypes.c_void_p
        self.library.busbw_scale.argtypes = (
            *(ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64),
            *(ctypes.c_uint32, ctypes.c_uint32),
        )

    def has_reduction(self, number: int, op_number: int) -> bool:
        return self.library.busbw_mpi_user_function(number, op_number, 0) is not None

    def reduced(self, type_: Type, op: str, left: Array, right: Array, *, large: bool = False) -> Array:
        """``left op right`` by the MPI user function."""
        count = (ctypes.c_int64 if large else ctypes.c_int)(left.size)
        signature = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(type(count)), ctypes.c_void_p
        )
        address = self.library.busbw_mpi_user_function(type_.number, OPS[op], int(large))
        source, result = np.ascontiguousarray(left), right.copy()
        signature(address)(source.ctypes.data, result.ctypes.data, ctypes.byref(count), None)
        return result

    def scaled(self, type_: Type, op: str, words: Array, rank: int, ranks: int) -> Array:
        """``words`` after busbw_scale, in place."""
        result = words.copy()
        address = result.ctypes.data
        status = self.library.busbw_scale(type_.number, OPS[op], address, address, result.size, rank, ranks)
        assert status == 0
        return result

    def premul_scalar(self, type_: Type, rank: int) -> Array:
        word = np.zeros(1, type_.word)
        assert self.library.busbw_premul_scalar(type_.number, rank, ctypes.c_void_p(word.ctypes.data)) == 0
        return word


@pytest.fixture(scope="session")
def types() -> dict[str, Type]:
    return TYPES


@pytest.fixture(scope="session")
def ops() -> NativeOps:
    return NativeOps()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with an argument ``type_`` runs for every element type, one with ``narrow`` for some."""
    if "type_" in metafunc.fixturenames:
        metafunc.parametrize("type_", TYPES.values(), ids=TYPES)
    if "narrow" in metafunc.fixturenames:
        narrow = {name: type_ for name, type_ in TYPES.items() if type_.format is not None}
        metafunc.parametrize("narrow", narrow.values(), ids=narrow)
