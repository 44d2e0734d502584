from __future__ import annotations

import re
from pathlib import Path

import pytest

import busbw
from busbw.model.case import Case
from busbw.model.collective import Placement
from busbw.model.mark import CONDITIONS, MARKS, conditions_of, in_todays_words, meaning
from busbw.model.result import FIELD_WORDS, CaseResult, Status
from busbw.stats.statistic import WORDS

SOURCES = Path(busbw.__path__[0])


def test_a_mark_is_one_word_with_one_meaning() -> None:
    assert len(MARKS) <= 8
    names = [word.name for word in (*MARKS, *CONDITIONS)]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in names)
    # In a row they follow the numbers, and must not be taken for a column.
    assert not set(names) & {*WORDS, *FIELD_WORDS}


def test_a_mark_of_a_newer_version_has_no_meaning_here() -> None:
    assert meaning("from-the-future") == ""


@pytest.mark.parametrize("mark", [*MARKS, *CONDITIONS], ids=lambda mark: mark.name)
def test_every_mark_is_given_somewhere(mark: object) -> None:
    """A row in the table that nothing sets is a promise that nobody keeps."""
    name = mark.name  # type: ignore[attr-defined]
    constant = name.upper().replace("-", "_")
    named = re.compile(rf'"{name}"|\b{constant}\b')
    files = [
        path for path in SOURCES.rglob("*.py") if path.name != "mark.py" and named.search(path.read_text())
    ]
    assert files


def test_a_condition_is_said_once_with_what_it_is_of() -> None:
    contended, grouped = ("contended",), ("contended", "grouped")
    plan = collective_plan(("all_reduce", "alltoall", "gather"))
    results = [CaseResult(at, Status.GOOD, conditions=grouped if at else contended) for at in range(3)]
    assert conditions_of(zip(plan, results, strict=True)) == (
        f"contended: {meaning('contended')}",
        f"grouped (alltoall, gather): {meaning('grouped')}",
    )


def collective_plan(names: tuple[str, ...]) -> list[Case]:
    return [Case(at, name, "float", "", -1, 8, 8, 2, Placement.OUT_OF_PLACE) for at, name in enumerate(names)]


def test_marks_of_older_records_are_read_in_todays_words() -> None:
    old = ("contended", "bimodal", "stopped", "clock-step", "unstable", "host-bound", "clock-error")
    now = in_todays_words(CaseResult(0, Status.GOOD, marks=old, evidence={"tau": 1.0}))
    assert now.marks == ("unstable", "stopped", "clock")
    assert now.conditions == ("contended",)
    assert now.evidence == {"tau": 1.0, "host_bound": True}
    assert in_todays_words(now) is now
