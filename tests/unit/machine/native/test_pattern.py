"""Check data: exact in every type and order, and able to show what can go wrong with a collective."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from busbw.machine.native import core

Array = npt.NDArray[Any]
Type = Any  # conftest.Type

CONTRIBUTION, REDUCED, MOVED = 0, 1, 2
RANKS = (1, 2, 3, 5, 8, 63, 64, 127, 128, 1000, 1024, 2160)
EVERY_OP = pytest.mark.parametrize("op", ["sum", "prod", "max", "min"])
NATIVE = Path(__file__).resolve().parents[4] / "native"


def reduce_in_chain(type_: Type, op: str, values: Array, random: np.random.Generator) -> Array:
    order = random.permutation(len(values))
    total: Array = values[order[0]]
    for rank in order[1:]:
        total = type_.apply(op, total, values[rank])
    return total


@EVERY_OP
def test_every_order_gives_the_expected_bits(type_: Type, op: str) -> None:
    random = np.random.default_rng(1)
    for ranks in RANKS:
        pattern = type_.pattern(op, ranks, seed=ranks)
        first_index = int(random.integers(1 << 40))
        count = 128 if ranks < 100 else 32
        values = type_.decode(type_.contributions(pattern, count, first_index))
        expected = type_.decode(type_.filled(pattern, count, REDUCED, first_index=first_index))
        assert np.array_equal(type_.reduce_in_tree(op, values, random), expected), ranks
        if ranks <= 64:
            assert np.array_equal(reduce_in_chain(type_, op, values, random), expected), ranks


# ---- faults of a reduction --------------------------------------------------------------------------

FAULT_COUNT = 2048


def test_moved_data_differs_between_owners_elements_and_seeds(type_: Type) -> None:
    pattern = type_.pattern("sum", 8)
    words = type_.filled(pattern, FAULT_COUNT, MOVED, rank=3)
    assert type_.checked(words, pattern, MOVED, rank=3).wrong == 0
    others = (
        type_.checked(words, pattern, MOVED, rank=4),
        type_.checked(words, pattern, MOVED, rank=3, first_index=1),
        type_.checked(words, type_.pattern("sum", 8, seed=8), MOVED, rank=3),
    )
    for other in others:
        assert other.wrong > 0.98 * FAULT_COUNT


# ---- fill and check themselves ----------------------------------------------------------------------


@EVERY_OP
@pytest.mark.parametrize("kind", [CONTRIBUTION, REDUCED, MOVED])
def test_a_region_is_a_slice_of_the_whole(type_: Type, op: str, kind: int) -> None:
    pattern = type_.pattern(op, 17)
    whole = type_.filled(pattern, 500, kind, rank=16)
    buffer = np.zeros(300, type_.word)
    core.fill(buffer.ctypes.data, pattern, core.Region(7, 250, 123, kind, 16))
    assert np.array_equal(buffer[7:257], whole[123:373])
    assert not buffer[:7].any()
    assert not buffer[257:].any()


def test_regions_add_up_to_one_result(type_: Type) -> None:
    pattern = type_.pattern("sum", 3)
    words = type_.filled(pattern, 9000, REDUCED, first_index=50)
    words[[2999, 8000]] ^= type_.word(1)
    together = type_.checked(words, pattern, REDUCED, first_index=50)
    split = core.new_check_result()
    for start, end in ((8191, 9000), (0, 1), (1, 3000), (3000, 8191)):
        region = core.Region(start, end - start, 50 + start, REDUCED, 0)
        core.check(words.ctypes.data, pattern, region, split)
    assert (split.wrong, split.first_wrong, split.digest) == (2, 2999, together.digest)


def test_the_digest_depends_on_where_an_element_is(types: dict[str, Type]) -> None:
    type_ = types["float"]
    pattern = type_.pattern("sum", 3)
    words = type_.filled(pattern, 100, REDUCED)
    swapped = words.copy()
    swapped[[3, 4]] = words[[4, 3]]
    assert type_.checked(swapped, pattern, REDUCED).digest != type_.checked(words, pattern, REDUCED).digest


@pytest.mark.parametrize(
    ("type_name", "op", "kind", "digest"),
    [
        ("float", "sum", REDUCED, 6445369610163247621),
        ("bfloat16", "prod", CONTRIBUTION, 11977241667053731400),
        ("int64", "min", REDUCED, 3325332406219621472),
        ("f8e4m3", "max", CONTRIBUTION, 5144775161524378668),
        ("uint8", "sum", MOVED, 16680817053723470169),
    ],
)
def test_the_data_is_the_same_on_every_machine(
    type_name: str, op: str, kind: int, digest: int, types: dict[str, Type]
) -> None:
    type_ = types[type_name]
    pattern = type_.pattern(op, 24, seed=2**63 + 5)
    words = type_.filled(pattern, 1000, kind, rank=11, first_index=2**40)
    assert type_.checked(words, pattern, kind, rank=11, first_index=2**40).digest == digest


@pytest.mark.parametrize(
    ("type_name", "op", "ranks"), [("half", "sum", 64), ("int8", "prod", 6), ("float", "max", 9)]
)
def test_every_rank_decides_its_share_of_the_elements(
    type_name: str, op: str, ranks: int, types: dict[str, Type]
) -> None:
    type_, count = types[type_name], 20_000
    pattern = type_.pattern(op, ranks)
    rows = type_.contributions(pattern, count)
    if op == "max":
        share, decides = 1 / ranks, rows == type_.filled(pattern, count, REDUCED)
    else:
        neutral = 1 if op == "prod" else 0
        share, decides = 1 / pattern.group, np.abs(type_.decode(rows)) > neutral
        if op == "prod":  # the odd number is one rank's of all, wherever the powers of two are
            share = 1 - (1 - share) * (1 - 1 / ranks)
    spread = np.sqrt(share * (1 - share) / count)
    assert pattern.group > 1 or op == "max"
    assert np.all(np.abs(decides.mean(1) - share) < 5 * spread)


def test_products_carry_both_signs(types: dict[str, Type]) -> None:
    type_ = types["float"]
    rows = type_.decode(type_.contributions(type_.pattern("prod", 33), 4096))
    assert np.all(np.abs((rows < 0).mean(1) - 0.5) < 0.05)


@pytest.mark.parametrize(
    ("ranks", "dtype", "op"), [(0, 7, 0), (2**31, 7, 0), (4, 14, 0), (4, -1, 0), (4, 7, 6), (4, 7, -1)]
)
def test_patterns_that_do_not_exist_are_refused(ranks: int, dtype: int, op: int) -> None:
    with pytest.raises(ValueError, match="no check data"):
        core.pattern(1, ranks, dtype, op)


@pytest.mark.parametrize(
    ("shift_bytes", "kind", "rank"),
    [
        (0, 3, 0),
        (0, 19, 0),
        (0, 34, 0),
        (0, 65, 0),
        (0, -1, 0),
        (0, CONTRIBUTION, 4),
        (0, MOVED, -1),
        (1, REDUCED, 0),
    ],
)
def test_regions_that_make_no_sense_are_refused(
    shift_bytes: int, kind: int, rank: int, types: dict[str, Type]
) -> None:
    words = np.zeros(8, np.uint32)
    region = core.Region(0, 4, 0, kind, rank)
    pattern = types["float"].pattern("sum", 4)
    with pytest.raises(ValueError, match="refused"):
        core.fill(words.ctypes.data + shift_bytes, pattern, region)
    with pytest.raises(ValueError, match="refused"):
        core.check(words.ctypes.data + shift_bytes, pattern, region, core.new_check_result())


def test_an_empty_region_needs_no_buffer(types: dict[str, Type]) -> None:
    result = core.new_check_result()
    region = core.Region(0, 0, 0, REDUCED, 0)
    core.check(0, types["float"].pattern("sum", 4), region, result)
    assert (result.wrong, result.first_wrong, result.digest) == (0, core.NO_WRONG_ELEMENT, 0)


def test_the_device_code_serves_old_drivers_and_has_every_kernel() -> None:
    ptx = (NATIVE / "pattern_device.ptx").read_text()
    assert ".version 7.8\n" in ptx  # drivers from 520 on
    assert ".target sm_52\n" in ptx
    for kernel in ("fill", "check", "compute", "memory"):
        assert f".visible .entry busbw_{kernel}_kernel(" in ptx
