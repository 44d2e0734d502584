"""Numbers that are too large, too small or none: every flag that takes one is refused or means something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Final

import pytest
from pydantic import ValidationError

from busbw.errors import UsageError
from busbw.foreign.nccl_tests import settings as nccl_tests_settings
from busbw.foreign.nccl_tests.flags import FLAGS as NCCL_TESTS_FLAGS
from busbw.foreign.nccl_tests.flags import read, read_variables
from busbw.foreign.nccom import settings as nccom_settings
from busbw.foreign.nccom.options import FLAGS, flag_name, parse
from busbw.model.plan import Plan
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import read_settings
from busbw.plan.make import make_plan

ODD: Final = (
    *("0", "-1", "1.5", "1e-320", "1e400", "nan", "-inf", "", "2kb", "1e308G"),
    *(str(2**31), str(2**64), "1" + "0" * 400 + "G", "9" * 5000, "0x" + "f" * 400, "\u00b2"),
)
SWEEP: Final = ("-b", "8", "-e", "64")
VARIABLES: Final = (
    *("NCCL_TESTS_DEVICE", "NCCL_TESTS_MIN_BW", "NCCL_TESTS_SPLIT_MASK"),
    *(f"NCCL_TESTS_ALLTOALLV_{name}" for name in ("MATRIX_SCALE", "SPREAD", "PRINT_SUMMARY")),
)
# Settings that are not numbers, and those that no flag sets.
WORDS: Final = frozenset(("hunt", "asked", "deliver"))


def planned_or_refused(make: Callable[[], Plan | None]) -> None:
    """Nothing else comes out, and what is planned reaches the ranks as it was made."""
    try:
        plan = make()
    except UsageError:
        return
    assert plan is None or Plan.from_json(plan.to_json()) == plan


def of_nccl_tests(words: tuple[str, ...], variables: dict[str, str]) -> Plan | None:
    line = read("alltoallv_perf", (*SWEEP, *words))
    settings = nccl_tests_settings.run_settings(line, read_variables(variables), "null")
    return make_plan(("alltoallv",), settings, "null", 2)


def of_nccom_test(words: tuple[str, ...]) -> Plan:
    options = parse(("allr", "-r", "2", *SWEEP, *words))
    settings = nccom_settings.run_settings(options, {"BUSBW_BACKEND": "null"})
    return make_plan(nccom_settings.operations_of(options), settings, "null", 2)


@pytest.mark.parametrize("word", ODD, ids=lambda word: word[:12])
def test_a_line_of_nccl_tests(word: str) -> None:
    for letter in (flag.letter for flag in NCCL_TESTS_FLAGS.values()):
        planned_or_refused(lambda letter=letter: of_nccl_tests((f"-{letter}", word), {}))  # type: ignore[misc]
    for name in VARIABLES:
        planned_or_refused(lambda name=name: of_nccl_tests((), {name: word}))  # type: ignore[misc]
    for operator in ("AND", "OR", "MOD", "DIV"):
        split = {"NCCL_TESTS_SPLIT": f"{operator} {word}"}
        planned_or_refused(lambda split=split: of_nccl_tests((), split))  # type: ignore[misc]


@pytest.mark.parametrize("word", ODD, ids=lambda word: word[:12])
def test_a_line_of_nccom_test(word: str) -> None:
    for flag in FLAGS:
        for more in ((), ("-f", "2")):
            words = (*more, f"{flag_name(flag)}={word}")
            planned_or_refused(lambda words=words: of_nccom_test(words))  # type: ignore[misc]
    planned_or_refused(lambda: of_nccom_test(("-t", f"p{word}")))


@pytest.mark.parametrize("word", ODD, ids=lambda word: word[:12])
def test_a_line_of_busbw_run(word: str) -> None:
    for field in fields(RunSettings):
        if field.name in WORDS:
            continue
        try:
            settings = read_settings(RunSettings, {"minbytes": "8", "maxbytes": "64", field.name: word})
        except (UsageError, ValidationError):
            continue
        for name in ("alltoallv", "all_gatherv"):
            planned_or_refused(lambda name=name, s=settings: make_plan((name,), s, "null", 4))  # type: ignore[misc]
