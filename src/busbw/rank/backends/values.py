"""Check data other than the exact ones (``native/pattern.hpp``): random values, and all ones.

``random``: pseudo-random bits, a function of seed, rank and element alone. The expected result is computed
here on the CPU, in binary64 over all ranks, and floats are compared with a tolerance: a sum or product of n
values in any order has an error of at most (n - 1) u of the sum of the magnitudes, or of the product, with
the unit roundoff u of the type (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sections 3.1
and 4.2; to first order). A scaling or division adds one rounding, and binary64 has the error of both sides.
Integers, and whatever is only moved, are compared exactly; integer sums and products wrap. avg of integers
takes values whose sum does not wrap.

``all_ones``: every input is 1, so that every element of the result is the same number.

Slower than the exact data, and able to miss a small error: for comparing with tools that check in these
ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from busbw.model.datatype import DataType
from busbw.model.layout import Holds, Region

EXACT: Final = "exact"
RANDOM: Final = "random"
ALL_ONES: Final = "all_ones"

Bits = npt.NDArray[np.unsignedinteger[Any]]
Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FloatFormat:
    """A float type: bits of the mantissa and bias of the exponent. OCP e4m3 has no infinities."""

    mantissa_bits: int
    exponent_bias: int
    largest: float


FLOATS: Final = {
    "half": FloatFormat(10, 15, 65504.0),
    "bfloat16": FloatFormat(7, 127, 3.3895313892515355e38),
    "float": FloatFormat(23, 127, 3.4028234663852886e38),
    "double": FloatFormat(52, 1023, 1.7976931348623157e308),
    "f8e4m3": FloatFormat(3, 7, 448.0),
    "f8e5m2": FloatFormat(2, 15, 57344.0),
}
_UNSIGNED: Final[dict[int, type[np.unsignedinteger[Any]]]] = {
    1: np.uint8,
    2: np.uint16,
    4: np.uint32,
    8: np.uint64,
}
_OF_NUMPY: Final = {"float": np.float32, "double": np.float64, "half": np.float16}
_GOLDEN: Final = 0x9E3779B97F4A7C15
_RANK_STEP: Final = 0xD1342543DE82EF95


@dataclass(frozen=True)
class Source:
    """What the values of one check depend on: all of it is the same on every rank of a group."""

    data: str
    seed: int
    ranks: int
    dtype: DataType
    op: str  # empty where nothing is reduced

    @property
    def unsigned(self) -> type[np.unsignedinteger[Any]]:
        """The unsigned type as wide as an element."""
        return _UNSIGNED[self.dtype.size_bytes]

    @property
    def signed(self) -> bool:
        """Whether elements are signed integers."""
        return self.dtype.name.startswith("int")


def has_data(source: Source) -> bool:
    """Whether the data can show a wrong result: the right one has to be a number that the type has."""
    ranks, form = source.ranks, FLOATS.get(source.dtype.name)
    if not source.op:
        return True
    if form is None:
        most = 2 ** (8 * source.dtype.size_bytes - source.signed) - 1
        return bool(ranks * 3 <= most or (source.op not in ("avg", "mulsum") and source.data != ALL_ONES))
    if source.data == ALL_ONES:
        return bool(ranks * 2 <= 2 ** (form.mantissa_bits + 1))
    # Magnitudes are below 2, scaled ones below 4; a product's below 2^n and above 2^-n.
    if source.op == "prod":
        return ranks < form.exponent_bias - 1
    return ranks * 4 <= form.largest


def contents(source: Source, region: Region) -> Bits:
    """The bits of a region that is sent, or that must be received exactly; one per element."""
    index = np.arange(region.first_index, region.first_index + region.count, dtype=np.uint64)
    if region.holds is Holds.REDUCED:
        return encode(source, _reduced(source, index)[0])
    return _of_rank(source, region.rank, index)


def wrong_elements(source: Source, region: Region, actual: Bits) -> npt.NDArray[np.bool_]:
    """Which elements of a received region are not what they must be, within the tolerance."""
    is_rounded = source.dtype.name in FLOATS and (source.data == RANDOM or source.op == "avg")
    if region.holds is not Holds.REDUCED or not is_rounded:
        return np.asarray(actual != contents(source, region))
    index = np.arange(region.first_index, region.first_index + region.count, dtype=np.uint64)
    expected, allowed = _reduced(source, index)
    off = np.abs(decode(source.dtype, actual) - np.asarray(expected, np.float64))
    return np.asarray(~(off <= allowed))  # NaN is wrong


def digest(index: npt.NDArray[np.uint64], bits: Bits) -> int:
    """Equal data, equal digest, in any split into regions."""
    return int(np.add.reduce(_mix(bits.astype(np.uint64) + index * np.uint64(_GOLDEN)))) % 2**64


def decode(dtype: DataType, bits: Bits) -> Values:
    """Values of a float type's bits, exactly."""
    if dtype.name in _OF_NUMPY:
        return np.asarray(bits.view(_OF_NUMPY[dtype.name]).astype(np.float64))
    if dtype.name == "bfloat16":
        return np.asarray((bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64))
    return np.asarray(_small_float_table(dtype.name)[bits])


def encode(source: Source, values: npt.NDArray[np.generic]) -> Bits:
    """The nearest bits of a result: integers wrap; floats are rounded, for showing and for exact ones."""
    form = FLOATS.get(source.dtype.name)
    if form is None:
        return values.astype(np.uint64).astype(source.unsigned)
    if source.dtype.name in _OF_NUMPY:
        with np.errstate(over="ignore"):
            return np.asarray(values.astype(_OF_NUMPY[source.dtype.name]).view(source.unsigned))
    if source.dtype.name == "bfloat16":
        wide = values.astype(np.float32).view(np.uint32)
        return ((wide + np.uint32(0x8000)) >> np.uint32(16)).astype(np.uint16)
    table = _small_float_table(source.dtype.name)
    order = np.argsort(table)  # NaN last
    finite = table[order][: int(np.isfinite(table).sum()) + int(np.isneginf(table).sum())]
    place = np.clip(np.searchsorted(finite, values), 1, len(finite) - 1)
    wanted = np.asarray(values, np.float64)
    nearer = np.where(np.abs(finite[place - 1] - wanted) <= np.abs(finite[place] - wanted), place - 1, place)
    return order[nearer].astype(np.uint8)


def _of_rank(source: Source, rank: int, index: npt.NDArray[np.uint64]) -> Bits:
    """A rank's own elements."""
    if source.data == ALL_ONES:
        return encode(source, np.ones(len(index), np.float64))
    key = _mix(np.array([(source.seed + _GOLDEN + (rank + 1) * _RANK_STEP) % 2**64], np.uint64))[0]
    random = _mix(key + index * np.uint64(_GOLDEN))
    form = FLOATS.get(source.dtype.name)
    if form is None and source.op in ("avg", "mulsum"):
        most = 2 ** (8 * source.dtype.size_bytes - source.signed) - 1
        random = random % np.uint64(most // (2 * source.ranks) + 1)
    if form is None or not source.op:
        return random.astype(source.unsigned)
    # Magnitudes from 1/2 to 2 with either sign, so that sums cancel and nothing over- or underflows.
    mantissa = random & np.uint64(2**form.mantissa_bits - 1)
    exponent = np.uint64(form.exponent_bias - 1) + ((random >> np.uint64(60)) & np.uint64(1))
    sign = (random >> np.uint64(63)) << np.uint64(8 * source.dtype.size_bytes - 1)
    bits = sign | (exponent << np.uint64(form.mantissa_bits)) | mantissa
    return np.asarray(bits.astype(source.unsigned))


def _reduced(source: Source, index: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.generic], Values]:
    """(the reduction over all ranks, how far from it a result may be)."""
    ranks = [_of_rank(source, rank, index) for rank in range(source.ranks)]
    if source.dtype.name not in FLOATS:
        return _reduced_integers(source, ranks), np.zeros(0)
    values = [decode(source.dtype, bits) for bits in ranks]
    if source.op in ("max", "min"):
        both = np.maximum if source.op == "max" else np.minimum
        result = values[0]
        for value in values[1:]:
            result = both(result, value)
        return result, np.zeros(len(index))
    form = FLOATS[source.dtype.name]
    roundoff = 2.0 ** -(form.mantissa_bits + 1) * (2 if source.dtype.name == "double" else 1)
    if source.op == "prod":
        result = np.prod(values, axis=0)
        return result, (source.ranks * roundoff) * 1.01 * np.abs(result)
    factors = [2.0 if source.op == "mulsum" and rank % 2 == 0 else 1.0 for rank in range(source.ranks)]
    scaled = [value * factor for value, factor in zip(values, factors, strict=True)]
    result, magnitude = np.sum(scaled, axis=0), np.sum(np.abs(scaled), axis=0)
    if source.op == "avg":
        # Scaled before or after, by division or by the rounded reciprocal: two roundings, and subnormals.
        tiny = 2.0 ** -(form.exponent_bias + form.mantissa_bits - 1)
        result, magnitude = result / source.ranks, magnitude / source.ranks
        return result, (source.ranks + 2) * (roundoff * 1.01 * magnitude + tiny)
    return result, source.ranks * roundoff * 1.01 * magnitude


def _reduced_integers(source: Source, ranks: list[Bits]) -> npt.NDArray[np.generic]:
    wide = np.int64 if source.signed else np.uint64
    signed = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}[source.dtype.size_bytes]
    values = [(bits.view(signed) if source.signed else bits).astype(wide) for bits in ranks]
    if source.op == "mulsum":
        values = [value * wide(2 if rank % 2 == 0 else 1) for rank, value in enumerate(values)]
    both = {"max": np.maximum, "min": np.minimum, "prod": np.multiply}.get(source.op, np.add)
    result = values[0]
    with np.errstate(over="ignore"):
        for value in values[1:]:
            result = both(result, value)
    return result // wide(source.ranks) if source.op == "avg" else result


def _small_float_table(name: str) -> Values:
    """The value of each of the 256 codes."""
    form = FLOATS[name]
    codes = np.arange(256)
    exponent = (codes >> form.mantissa_bits) & (2 ** (7 - form.mantissa_bits) - 1)
    mantissa = codes & (2**form.mantissa_bits - 1)
    normal = (1 + mantissa / 2**form.mantissa_bits) * 2.0 ** (exponent - form.exponent_bias)
    subnormal = mantissa / 2**form.mantissa_bits * 2.0 ** (1 - form.exponent_bias)
    magnitude = np.where(exponent == 0, subnormal, normal)
    magnitude = np.where(magnitude > form.largest, np.nan, magnitude)
    if name == "f8e5m2":
        magnitude = np.where((exponent == exponent.max()) & (mantissa == 0), np.inf, magnitude)
    return np.where(codes >= 128, -magnitude, magnitude)


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of splitmix64, as in native/pattern.hpp."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
