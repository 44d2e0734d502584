"""NCCL_TESTS_* variables, and those that NCCL and CUDA read."""

from __future__ import annotations

import pytest

from busbw.errors import UsageError
from busbw.foreign.nccl_tests.flags import Variables, read_variables
from busbw.plan.pattern import split_colours


@pytest.mark.parametrize(
    ("text", "colours"),
    [
        ("MOD 2", [0, 1, 0, 1]),
        ("%2", [0, 1, 0, 1]),
        ("/ 2", [0, 0, 1, 1]),
        ("&0x1", [0, 1, 0, 1]),
        ("or 3", [3] * 4),
    ],
)
def test_splits(text: str, colours: list[int]) -> None:
    assert split_colours(read_variables({"NCCL_TESTS_SPLIT": text}).split, 4) == colours


def test_the_mask_is_hexadecimal_and_wins() -> None:
    both = {"NCCL_TESTS_SPLIT": "MOD 2", "NCCL_TESTS_SPLIT_MASK": "10"}
    assert read_variables(both).split == "AND 0x10"
    assert read_variables({"NCCL_TESTS_SPLIT_MASK": "0x7"}).split == "AND 0x7"


def test_numbers() -> None:
    found = read_variables(
        {"NCCL_TESTS_MIN_BW": "400", "NCCL_TESTS_ALLTOALLV_SPREAD": "0.5",
         "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY": "1"}
    )  # fmt: skip
    assert (found.min_bandwidth, found.matrix_scale, found.spread) == (400.0, 1.0, 0.5)
    assert found.print_summary
    with pytest.raises(UsageError, match="NCCL_TESTS_MIN_BW='400GB/s' is not a number"):
        read_variables({"NCCL_TESTS_MIN_BW": "400GB/s"})


def test_the_device_of_a_process_is_refused_with_what_chooses_it() -> None:
    assert read_variables({"NCCL_TESTS_DEVICE": "-1"}) == Variables()
    with pytest.raises(UsageError, match="NCCL_TESTS_DEVICE") as refused:
        read_variables({"NCCL_TESTS_DEVICE": "2"})
    assert "CUDA_VISIBLE_DEVICES" in refused.value.hint
