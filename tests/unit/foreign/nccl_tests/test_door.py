"""Errors of `busbw run` in the words of a front door."""

from __future__ import annotations

import io

import pytest

from busbw.errors import UsageError
from busbw.foreign.door import DoorDisplay, in_words_of, renamed
from busbw.foreign.nccl_tests.settings import THEIR_FLAGS as OF_NCCL_TESTS
from busbw.foreign.nccom.settings import THEIR_FLAGS as OF_NCCOM_TEST


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--matrix m.txt is not square", "NCCL_TESTS_ALLTOALLV_MATRIX_FILE m.txt is not square"),
        ("--matrix-scale 2", "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE 2"),
        ("--spread 2 is not between", "NCCL_TESTS_ALLTOALLV_SPREAD 2 is not between"),
        ("--split 'MOD 0' divides by zero", "NCCL_TESTS_SPLIT 'MOD 0' divides by zero"),
        ("give --backend nccl on GPUs", "give BUSBW_BACKEND=nccl on GPUs"),
        ("srun --mpi=pmix, or --world nccl", "srun --mpi=pmix, or BUSBW_WORLD=nccl"),
        ("name one with --nccl or BUSBW_NCCL", "name one with BUSBW_NCCL"),
    ],
)
def test_flags_that_nccl_tests_has_not(text: str, expected: str) -> None:
    assert renamed(text, OF_NCCL_TESTS) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("install mpich there, or give --mpi none", "install mpich there, or give BUSBW_MPI=none"),
        ("--counts c.json: entry 1", "--variable-size-op-metadata c.json: entry 1"),
        ("leave --pin out, or --pin-not", "leave --vcpu-pin-mode out, or --pin-not"),
    ],
)
def test_flags_that_nccom_test_has_not(text: str, expected: str) -> None:
    assert renamed(text, OF_NCCOM_TEST) == expected


def test_errors_that_are_raised_and_that_ranks_tell() -> None:
    with pytest.raises(UsageError) as caught, in_words_of(OF_NCCL_TESTS):
        raise UsageError("--split is wrong", hint="leave --split out")
    told = (caught.value.message, caught.value.hint)
    assert told == ("NCCL_TESTS_SPLIT is wrong", "leave NCCL_TESTS_SPLIT out")
    err = io.StringIO()
    item = {"event": "error", "rank": None, "host": "", "message": "--split is wrong"}
    for hint in ("leave --split out", None):
        DoorDisplay(OF_NCCL_TESTS, io.StringIO(), err).handle({**item, "hint": hint})
    error, hint = "error: NCCL_TESTS_SPLIT is wrong\n", "hint: leave NCCL_TESTS_SPLIT out\n"
    assert err.getvalue() == error + hint + error
