"""Numbers that are too large, too small or none: every flag that takes one is refused or means something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final

import pytest

from busbw.errors import UsageError
from busbw.frontdoors import nccl_tests_settings, nccom_settings
from busbw.frontdoors.nccl_tests_environment import read_variables
from busbw.frontdoors.nccl_tests_flags import LETTERS, read
from busbw.frontdoors.nccom_flags import FLAGS
from busbw.frontdoors.nccom_options import parse
from busbw.model.plan import Plan
from busbw.planning.make import make_plan
from busbw.settings.run import RunSettings

ODD: Final = (
    *("0", "-1", "0.1", "1.5", "1e-320", "1e308", "1e400", "nan", "inf", "-inf", "", "1K", "2kb", "1e308G"),
    *(str(2**31), str(2**63 - 1), str(2**64), "1" + "0" * 400, "1" + "0" * 400 + "G", "1" + "0" * 400 + "s"),
    *("-" + "9" * 400, "9" * 5000, "0x" + "f" * 400, "\u00b2"),
)
SWEEP: Final = ("-b", "8", "-e", "64")
VARIABLES: Final = (
    *("NCCL_TESTS_DEVICE", "NCCL_TESTS_MIN_BW", "NCCL_TESTS_SPLIT_MASK"),
    *(f"NCCL_TESTS_ALLTOALLV_{name}" for name in ("MATRIX_SCALE", "SPREAD", "PRINT_SUMMARY")),
)
# Settings that are not numbers, and those that no flag sets.
WORDS: Final = frozenset(("hunt", "deliver"))


def planned_or_refused(make: Callable[[], Plan | None]) -> None:
    """Nothing else comes out, and what is planned reaches the ranks as it was made."""
    try:
        plan = make()
    except UsageError:
        return
    assert plan is None or Plan.from_json(plan.to_json()) == plan


def of_nccl_tests(words: tuple[str, ...], variables: dict[str, str]) -> Plan | None:
    line = read("alltoallv_perf", (*SWEEP, *words))
    if line.status is not None:
        return None
    settings = nccl_tests_settings.run_settings(line, read_variables(variables), "null")
    return make_plan(("alltoallv",), settings, "null", 2)


def of_nccom_test(words: tuple[str, ...]) -> Plan:
    options = parse(("allr", "-r", "2", *SWEEP, *words))
    settings = nccom_settings.run_settings(options, {"BUSBW_BACKEND": "null"})
    return make_plan(nccom_settings.operations_of(options), settings, "null", 2)


def values(kind: str, word: str) -> list[Any]:
    """What the command line makes of a word for a setting of this kind: an annotation, as text."""
    kinds = kind.removeprefix("Annotated[").partition(",")[0].split()
    found: list[Any] = [word] if "str" in kinds else []
    for name, number in (("int", int), ("float", float)):
        if name in kinds:
            try:
                found.append(number(word))
            except (ValueError, OverflowError):
                continue
    return found


@pytest.mark.parametrize("word", ODD, ids=lambda word: word[:12])
def test_a_line_of_nccl_tests(word: str) -> None:
    for letter in LETTERS.values():
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
            words = (*more, f"--{flag.name}={word}")
            planned_or_refused(lambda words=words: of_nccom_test(words))  # type: ignore[misc]
    planned_or_refused(lambda: of_nccom_test(("-t", f"p{word}")))


@pytest.mark.parametrize("word", ODD, ids=lambda word: word[:12])
def test_a_line_of_busbw_run(word: str) -> None:
    for field in fields(RunSettings):
        for value in values(str(field.type), word) if field.name not in WORDS else ():
            settings = RunSettings(**{"minbytes": "8", "maxbytes": "64", field.name: value})
            for name in ("alltoallv", "all_gatherv"):
                planned_or_refused(lambda name=name, s=settings: make_plan((name,), s, "null", 4))  # type: ignore[misc]
