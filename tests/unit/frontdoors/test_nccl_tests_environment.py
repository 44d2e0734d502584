"""NCCL_TESTS_* variables, and those that NCCL and CUDA read."""

from __future__ import annotations

import pytest

from busbw.errors import UsageError
from busbw.frontdoors.nccl_tests_environment import Variables, color, prepare, read_variables
from busbw.frontdoors.nccl_tests_flags import Options


def test_nothing_set_is_nothing_asked() -> None:
    assert read_variables({}) == Variables()


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("AND 0x7", "AND 7"),
        ("&0x7", "AND 7"),
        ("or 0b11", "OR 3"),
        ("MOD 8", "MOD 8"),
        ("%8", "MOD 8"),
        ("DIV 010", "DIV 8"),  # C reads a leading 0 as octal
        ("/ 2", "DIV 2"),
        ("", ""),
    ],
)
def test_splits(text: str, split: str) -> None:
    assert read_variables({"NCCL_TESTS_SPLIT": text}).split == split


def test_the_mask_is_hexadecimal_and_wins() -> None:
    both = {"NCCL_TESTS_SPLIT": "MOD 2", "NCCL_TESTS_SPLIT_MASK": "10"}
    assert read_variables(both).split == "AND 0x10"
    assert read_variables({"NCCL_TESTS_SPLIT_MASK": "0x7"}).split == "AND 0x7"


def test_a_split_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="is no split"):
        read_variables({"NCCL_TESTS_SPLIT": "MOD"})


@pytest.mark.parametrize(
    ("split", "colors"),
    [
        ("", [0, 0, 0, 0]),
        ("MOD 2", [0, 1, 0, 1]),
        ("DIV 2", [0, 0, 1, 1]),
        ("AND 0x1", [0, 1, 0, 1]),
        ("OR 3", [3] * 4),
    ],
)
def test_colors_of_ranks(split: str, colors: list[int]) -> None:
    assert [color(split, rank) for rank in range(4)] == colors


def test_numbers_are_read_as_c_reads_them() -> None:
    found = read_variables(
        {
            "NCCL_TESTS_MIN_BW": "400GB/s",
            "NCCL_TESTS_DEVICE": "2nd",
            "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE": "-1",
            "NCCL_TESTS_ALLTOALLV_SPREAD": "1.5",
            "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY": "1",
        }
    )
    assert (found.min_bandwidth, found.device, found.matrix_scale, found.spread) == (400.0, 2, 0.0, 1.0)
    assert found.print_summary
    assert read_variables({"NCCL_TESTS_ALLTOALLV_SPREAD": "0.5x"}).spread == 1.0  # not a number: the default
    assert read_variables({"NCCL_TESTS_DEVICE": "-1"}).device is None


def test_the_cta_policy_reaches_nccl() -> None:
    environ: dict[str, str] = {}
    prepare(environ, Options(cta_policy=2), 1)
    assert environ == {"NCCL_CTA_POLICY": "2"}
    prepare(environ := {}, Options(), 1)
    assert environ == {}


def test_the_first_device_is_one_of_the_visible_ones() -> None:
    environ = {"NCCL_TESTS_DEVICE": "1", "CUDA_VISIBLE_DEVICES": "4,5,7"}
    prepare(environ, Options(), 2)
    assert environ["CUDA_VISIBLE_DEVICES"] == "5,7"
    environ = {"NCCL_TESTS_DEVICE": "3"}
    prepare(environ, Options(), 2)
    assert environ["CUDA_VISIBLE_DEVICES"] == "3,4"
    with pytest.raises(UsageError, match="need 4 visible devices"):
        prepare({"NCCL_TESTS_DEVICE": "3", "CUDA_VISIBLE_DEVICES": "4,5,7"}, Options(), 1)
