"""Check data: exact in every type and order, and able to show what can go wrong with a collective."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from busbw._native import core

Array = npt.NDArray[Any]

CONTRIBUTION, REDUCED, MOVED = 0, 1, 2
OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3}
RANKS = (1, 2, 3, 5, 8, 17, 64, 255, 1440, 2160)
NATIVE = Path(__file__).resolve().parents[3] / "native"


@dataclass(frozen=True)
class NarrowFloat:
    """A float that numpy lacks. Arithmetic on it is binary64's, rounded once (nearest, ties to even)."""

    exponent_bits: int
    mantissa_bits: int
    codes: int  # finite non-negative values, code 0 being 0.0

    @cache  # noqa: B019 - three instances, for the life of the process
    def positive_values(self) -> npt.NDArray[np.float64]:
        code = np.arange(self.codes)
        exponent, mantissa = code >> self.mantissa_bits, code & ((1 << self.mantissa_bits) - 1)
        bias = (1 << (self.exponent_bits - 1)) - 1
        fraction = mantissa / (1 << self.mantissa_bits) + (exponent > 0)
        values: npt.NDArray[np.float64] = np.ldexp(fraction, np.maximum(exponent, 1) - bias)
        return values

    def decode(self, bits: Array) -> npt.NDArray[np.float64]:
        sign = 1 << (self.exponent_bits + self.mantissa_bits)
        magnitude = self.positive_values()[bits & (sign - 1)]
        values: npt.NDArray[np.float64] = np.where(bits & sign, -magnitude, magnitude)
        return values

    def round(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        table = self.positive_values()
        above = np.clip(np.searchsorted(table, np.abs(values)), 1, self.codes - 1)
        low, high = table[above - 1], table[above]
        to_low, to_high = np.abs(values) - low, high - np.abs(values)
        take_low = (to_low < to_high) | ((to_low == to_high) & ((above - 1) % 2 == 0))
        return np.copysign(np.where(take_low, low, high), values)


@dataclass(frozen=True)
class Type:
    number: int
    word: type[np.unsignedinteger[Any]]
    value: type[np.generic] | NarrowFloat

    def decode(self, words: Array) -> Array:
        if isinstance(self.value, NarrowFloat):
            return self.value.decode(words)
        return words.view(self.value)

    def apply(self, op: str, left: Array, right: Array) -> Array:
        functions: dict[str, Any] = {
            "sum": np.add,
            "prod": np.multiply,
            "max": np.maximum,
            "min": np.minimum,
        }
        result: Array = functions[op](left, right)
        return self.value.round(result) if isinstance(self.value, NarrowFloat) else result


TYPES = {
    "int8": Type(0, np.uint8, np.int8),
    "uint8": Type(1, np.uint8, np.uint8),
    "int32": Type(2, np.uint32, np.int32),
    "uint32": Type(3, np.uint32, np.uint32),
    "int64": Type(4, np.uint64, np.int64),
    "uint64": Type(5, np.uint64, np.uint64),
    "half": Type(6, np.uint16, np.float16),
    "float": Type(7, np.uint32, np.float32),
    "double": Type(8, np.uint64, np.float64),
    "bfloat16": Type(9, np.uint16, NarrowFloat(8, 7, 0x7F80)),
    "f8e4m3": Type(10, np.uint8, NarrowFloat(4, 3, 0x7F)),
    "f8e5m2": Type(11, np.uint8, NarrowFloat(5, 2, 0x7C)),
    "int16": Type(12, np.uint16, np.int16),
    "uint16": Type(13, np.uint16, np.uint16),
}
EVERY_TYPE = pytest.mark.parametrize("type_", TYPES.values(), ids=TYPES)
EVERY_OP = pytest.mark.parametrize("op", OPS)


def make(type_: Type, op: str, ranks: int, seed: int = 7) -> core.Pattern:
    return core.pattern(seed, ranks, type_.number, OPS[op])


def filled(
    pattern: core.Pattern, type_: Type, count: int, kind: int, *, rank: int = 0, first_index: int = 0
) -> Array:
    words = np.zeros(count, type_.word)
    core.fill(words.ctypes.data, pattern, core.Region(0, count, first_index, kind, rank))
    return words


def contributions(pattern: core.Pattern, type_: Type, count: int, first_index: int = 0) -> Array:
    """Words of shape (ranks, count)."""
    words = np.zeros((pattern.ranks, count), type_.word)
    region = core.Region(0, count, first_index, CONTRIBUTION, 0)
    for rank in range(pattern.ranks):
        region.rank = rank
        core.fill(words[rank].ctypes.data, pattern, region)
    return words


def checked(
    words: Array, pattern: core.Pattern, kind: int, rank: int = 0, first_index: int = 0
) -> core.CheckResult:
    result = core.new_check_result()
    core.check(words.ctypes.data, pattern, core.Region(0, len(words), first_index, kind, rank), result)
    return result


def reduce_in_tree(type_: Type, op: str, values: Array, random: np.random.Generator) -> Array:
    """Reduce the rows of ``values`` pairwise in a random tree, in the type's own arithmetic."""
    while len(values) > 1:
        values = values[random.permutation(len(values))]
        pairs = int(random.integers((len(values) + 3) // 4, len(values) // 2 + 1))
        joined = type_.apply(op, values[:pairs], values[pairs : 2 * pairs])
        values = np.concatenate([joined, values[2 * pairs :]])
    total: Array = values[0]
    return total


def reduce_in_chain(type_: Type, op: str, values: Array, random: np.random.Generator) -> Array:
    order = random.permutation(len(values))
    total: Array = values[order[0]]
    for rank in order[1:]:
        total = type_.apply(op, total, values[rank])
    return total


@EVERY_TYPE
@EVERY_OP
def test_every_order_gives_the_expected_bits(type_: Type, op: str) -> None:
    random = np.random.default_rng(1)
    for ranks in RANKS:
        pattern = make(type_, op, ranks, seed=ranks)
        first_index = int(random.integers(1 << 40))
        count = 128 if ranks < 100 else 32
        values = type_.decode(contributions(pattern, type_, count, first_index))
        expected = type_.decode(filled(pattern, type_, count, REDUCED, first_index=first_index))
        assert np.array_equal(reduce_in_tree(type_, op, values, random), expected), ranks
        if ranks <= 64:
            assert np.array_equal(reduce_in_chain(type_, op, values, random), expected), ranks


@EVERY_TYPE
@EVERY_OP
@pytest.mark.parametrize("ranks", [1, 8, 2160])
def test_no_partial_result_leaves_the_type(type_: Type, op: str, ranks: int) -> None:
    """Integers would hide an overflow by wrapping around: look at the magnitudes in floating point."""
    values = type_.decode(contributions(make(type_, op, ranks), type_, 64)).astype(np.float64)
    assert np.isfinite(values).all()
    if op in ("sum", "prod") and not isinstance(type_.value, NarrowFloat):
        total = np.abs(values).sum(0) if op == "sum" else np.abs(values).prod(0)
        value: Any = type_.value
        limit = np.iinfo(value).max if issubclass(value, np.integer) else np.finfo(value).max
        assert total.max() <= float(limit)


# ---- faults of a reduction --------------------------------------------------------------------------

FAULT_COUNT = 2048
FAULT_RANKS = (2, 8, 65)


def is_wrong(type_: Type, op: str, rows: Array, pattern: core.Pattern) -> npt.NDArray[np.bool_]:
    with np.errstate(over="ignore"):  # a product with one factor too many may overflow: that is wrong too
        outcome = reduce_in_chain(type_, op, type_.decode(rows), np.random.default_rng(2))
    wrong: npt.NDArray[np.bool_] = outcome != type_.decode(filled(pattern, type_, rows.shape[1], REDUCED))
    return wrong


def neutral_word(type_: Type, op: str) -> Array:
    """The bits of 0 (sum) or 1 (prod)."""
    if isinstance(type_.value, NarrowFloat):
        one = int(np.searchsorted(type_.value.positive_values(), 1.0))
        return np.array(one if op == "prod" else 0, type_.word)
    value: Any = type_.value
    return np.array(op == "prod").astype(value).view(type_.word)


@EVERY_TYPE
@EVERY_OP
def test_a_dropped_rank_shows_in_every_element_it_decides(type_: Type, op: str) -> None:
    for ranks in FAULT_RANKS:
        pattern = make(type_, op, ranks)
        rows = contributions(pattern, type_, FAULT_COUNT)
        dropped = ranks // 2
        wrong = is_wrong(type_, op, np.delete(rows, dropped, 0), pattern)
        if op in ("sum", "prod"):
            decides = rows[dropped] != neutral_word(type_, op)
        else:
            decides = rows[dropped] == filled(pattern, type_, FAULT_COUNT, REDUCED)
        assert np.array_equal(wrong, decides)
        share = 1 / pattern.group if op in ("sum", "prod") else 1 / ranks
        assert wrong.sum() > 0.5 * share * FAULT_COUNT


@EVERY_TYPE
@pytest.mark.parametrize("op", ["sum", "prod"])
def test_a_rank_counted_twice_shows_wherever_it_contributes(type_: Type, op: str) -> None:
    for ranks in FAULT_RANKS:
        pattern = make(type_, op, ranks)
        rows = contributions(pattern, type_, FAULT_COUNT)
        wrong = is_wrong(type_, op, np.concatenate([rows, rows[:1]]), pattern)
        assert np.array_equal(wrong, rows[0] != neutral_word(type_, op))


@EVERY_TYPE
@EVERY_OP
def test_a_rank_in_anothers_place_shows(type_: Type, op: str) -> None:
    for ranks in FAULT_RANKS:
        pattern = make(type_, op, ranks)
        rows = contributions(pattern, type_, FAULT_COUNT)
        replaced = rows.copy()
        replaced[0] = rows[1]
        wrong = is_wrong(type_, op, replaced, pattern)
        if op in ("sum", "prod"):
            assert np.array_equal(wrong, rows[0] != rows[1])
        if op == "sum":  # contributors of an element are distinct
            assert np.array_equal(wrong, (rows[0] != 0) | (rows[1] != 0))
        share = 1 / pattern.group if op in ("sum", "prod") else 1 / ranks
        assert wrong.sum() > 0.4 * share * FAULT_COUNT


@EVERY_TYPE
@EVERY_OP
def test_unrelated_data_shows_in_many_elements(type_: Type, op: str) -> None:
    for ranks in FAULT_RANKS:
        pattern = make(type_, op, ranks)
        stale = filled(make(type_, op, ranks, seed=8), type_, FAULT_COUNT, REDUCED)
        shifted = filled(pattern, type_, FAULT_COUNT, REDUCED, first_index=1)
        swapped = filled(pattern, type_, FAULT_COUNT, REDUCED).reshape(2, -1)[::-1].ravel()
        for words in (stale, shifted, swapped):
            assert checked(words, pattern, REDUCED).wrong > 0.4 * FAULT_COUNT
        assert checked(np.zeros(FAULT_COUNT, type_.word), pattern, REDUCED).wrong > 0.9 * FAULT_COUNT


@EVERY_TYPE
def test_moved_data_differs_between_owners_elements_and_seeds(type_: Type) -> None:
    pattern = make(type_, "sum", 8)
    words = filled(pattern, type_, FAULT_COUNT, MOVED, rank=3)
    assert checked(words, pattern, MOVED, rank=3).wrong == 0
    others = (
        checked(words, pattern, MOVED, rank=4),
        checked(words, pattern, MOVED, rank=3, first_index=1),
        checked(words, make(type_, "sum", 8, seed=8), MOVED, rank=3),
    )
    for other in others:
        assert other.wrong > 0.98 * FAULT_COUNT


# ---- fill and check themselves ----------------------------------------------------------------------


@EVERY_TYPE
@EVERY_OP
@pytest.mark.parametrize("kind", [CONTRIBUTION, REDUCED, MOVED])
def test_every_flipped_bit_is_found(type_: Type, op: str, kind: int) -> None:
    pattern = make(type_, op, 5)
    words = filled(pattern, type_, 3000, kind, rank=4)
    clean = checked(words, pattern, kind, rank=4)
    assert (clean.wrong, clean.first_wrong) == (0, core.NO_WRONG_ELEMENT)
    for bit in range(8 * words.itemsize):
        position = (bit * 1303 + 41) % len(words)
        words[position] ^= type_.word(1 << bit)
        found = checked(words, pattern, kind, rank=4)
        assert (found.wrong, found.first_wrong) == (1, position)
        assert found.digest != clean.digest
        words[position] ^= type_.word(1 << bit)


@EVERY_TYPE
@EVERY_OP
@pytest.mark.parametrize("kind", [CONTRIBUTION, REDUCED, MOVED])
def test_a_region_is_a_slice_of_the_whole(type_: Type, op: str, kind: int) -> None:
    pattern = make(type_, op, 17)
    whole = filled(pattern, type_, 500, kind, rank=16)
    buffer = np.zeros(300, type_.word)
    core.fill(buffer.ctypes.data, pattern, core.Region(7, 250, 123, kind, 16))
    assert np.array_equal(buffer[7:257], whole[123:373])
    assert not buffer[:7].any()
    assert not buffer[257:].any()


@EVERY_TYPE
def test_regions_add_up_to_one_result(type_: Type) -> None:
    pattern = make(type_, "sum", 3)
    words = filled(pattern, type_, 9000, REDUCED, first_index=50)
    words[[2999, 8000]] ^= type_.word(1)
    together = checked(words, pattern, REDUCED, first_index=50)
    split = core.new_check_result()
    for start, end in ((8191, 9000), (0, 1), (1, 3000), (3000, 8191)):
        region = core.Region(start, end - start, 50 + start, REDUCED, 0)
        core.check(words.ctypes.data, pattern, region, split)
    assert (split.wrong, split.first_wrong, split.digest) == (2, 2999, together.digest)


def test_the_digest_depends_on_where_an_element_is() -> None:
    pattern = make(TYPES["float"], "sum", 3)
    words = filled(pattern, TYPES["float"], 100, REDUCED)
    swapped = words.copy()
    swapped[[3, 4]] = words[[4, 3]]
    assert checked(swapped, pattern, REDUCED).digest != checked(words, pattern, REDUCED).digest


@pytest.mark.parametrize(
    ("type_name", "op", "kind", "digest"),
    [
        ("float", "sum", REDUCED, 6445369610163247621),
        ("bfloat16", "prod", CONTRIBUTION, 4735571789741558085),
        ("int64", "min", REDUCED, 3325332406219621472),
        ("f8e4m3", "max", CONTRIBUTION, 5144775161524378668),
        ("uint8", "sum", MOVED, 16680817053723470169),
    ],
)
def test_the_data_is_the_same_on_every_machine(type_name: str, op: str, kind: int, digest: int) -> None:
    type_ = TYPES[type_name]
    pattern = make(type_, op, 24, seed=2**63 + 5)
    words = filled(pattern, type_, 1000, kind, rank=11, first_index=2**40)
    assert checked(words, pattern, kind, rank=11, first_index=2**40).digest == digest


@pytest.mark.parametrize(
    ("type_name", "op", "ranks"), [("half", "sum", 64), ("int8", "prod", 6), ("float", "max", 9)]
)
def test_every_rank_decides_its_share_of_the_elements(type_name: str, op: str, ranks: int) -> None:
    type_, count = TYPES[type_name], 20_000
    pattern = make(type_, op, ranks)
    rows = contributions(pattern, type_, count)
    if op == "max":
        share, decides = 1 / ranks, rows == filled(pattern, type_, count, REDUCED)
    else:
        share, decides = 1 / pattern.group, np.abs(type_.decode(rows)) > (1 if op == "prod" else 0)
    spread = np.sqrt(share * (1 - share) / count)
    assert pattern.group > 1 or op == "max"
    assert np.all(np.abs(decides.mean(1) - share) < 5 * spread)


def test_products_carry_both_signs() -> None:
    rows = TYPES["float"].decode(contributions(make(TYPES["float"], "prod", 33), TYPES["float"], 4096))
    assert np.all(np.abs((rows < 0).mean(1) - 0.5) < 0.05)


@pytest.mark.parametrize(
    ("ranks", "dtype", "op"), [(0, 7, 0), (2**31, 7, 0), (4, 14, 0), (4, -1, 0), (4, 7, 4), (4, 7, -1)]
)
def test_patterns_that_do_not_exist_are_refused(ranks: int, dtype: int, op: int) -> None:
    with pytest.raises(ValueError, match="no check data"):
        core.pattern(1, ranks, dtype, op)


@pytest.mark.parametrize(
    ("shift_bytes", "kind", "rank"),
    [(0, 3, 0), (0, -1, 0), (0, CONTRIBUTION, 4), (0, MOVED, -1), (1, REDUCED, 0)],
)
def test_regions_that_make_no_sense_are_refused(shift_bytes: int, kind: int, rank: int) -> None:
    words = np.zeros(8, np.uint32)
    region = core.Region(0, 4, 0, kind, rank)
    pattern = make(TYPES["float"], "sum", 4)
    with pytest.raises(ValueError, match="refused"):
        core.fill(words.ctypes.data + shift_bytes, pattern, region)
    with pytest.raises(ValueError, match="refused"):
        core.check(words.ctypes.data + shift_bytes, pattern, region, core.new_check_result())


def test_an_empty_region_needs_no_buffer() -> None:
    result = core.new_check_result()
    region = core.Region(0, 0, 0, REDUCED, 0)
    core.check(0, make(TYPES["float"], "sum", 4), region, result)
    assert (result.wrong, result.first_wrong, result.digest) == (0, core.NO_WRONG_ELEMENT, 0)


def test_the_device_code_serves_old_drivers_and_has_every_kernel() -> None:
    ptx = (NATIVE / "pattern_device.ptx").read_text()
    assert ".version 7.8\n" in ptx  # drivers from 520 on
    assert ".target sm_52\n" in ptx
    for kernel in ("busbw_fill_kernel", "busbw_check_kernel", "busbw_empty_kernel"):
        assert f".visible .entry {kernel}(" in ptx
