"""Damaged exports of busbw: JSON, CSV, tables with lines of ours. No row that is not the original's, and none
lost without a word.
"""

import json
import random
from typing import Any

import pytest
from busbw_testing.damaged_logs import INSIDE, TOLD
from busbw_testing.logs import AWS_ROWS, aws_csv, imported, kinds, nccl_table, read

from busbw.errors import BusbwError
from busbw.foreign.forms.formats import render
from busbw.model.record import RunRecord


def exported(name: str) -> str:
    (record,) = imported(nccl_table(3))
    return render(record, name).decode()


def records_of(text: str) -> tuple[list[RunRecord], set[str]]:
    """The records of a text, and the kinds of what was said of it."""
    reading = read(text)
    told = {finding.kind for finding in reading.findings} | ({"cut"} if reading.no_text else set())
    try:
        found = imported(text, op="all_reduce", ranks=16)
    except BusbwError:
        return [], told | {"damaged"}
    return found, told.union(*map(kinds, found))


def rows_of(records: list[RunRecord]) -> set[tuple[Any, ...]]:
    return {
        (case.size_bytes, case.placement, result.time_ns, result.algbw_gb_per_s, result.wrong or 0)
        for record in records
        for case, result in zip(record.plan.cases, record.results, strict=True)
        if result.time_ns is not None
    }


@pytest.mark.parametrize("name", ["csv", "nccl-tests-json", "nccom-json"])
def test_damaged_exports(name: str) -> None:
    """None loses a row without a word, and most rows are kept."""
    text = exported(name)
    original = rows_of(records_of(text)[0])
    assert len(original) == 58
    kept = 0
    for seed in range(25):
        rng = random.Random(seed)
        records, told = records_of(rng.choice(INSIDE)(rng, text))
        found = rows_of(records)
        assert found <= original, f"seed {seed}"
        failed = any(result.error for record in records for result in record.results)
        assert found == original or failed or told & TOLD, f"seed {seed}"
        kept += len(found)
    assert kept > 500


def test_rows_of_a_cut_report_keep_their_placement() -> None:
    text = exported("nccom-json")
    original = rows_of(records_of(text)[0])
    records, told = records_of(text[: text.index('"busbw": {\n        "operation"')])
    assert rows_of(records) == original
    assert told == {"cut"}


def test_joined_and_broken_lines_of_a_csv_are_no_rows() -> None:
    first, second, third = AWS_ROWS
    broken = second.replace("51406.0,41", "514\n06.0,41", 1)  # whose first half is a size and a time
    for rows in ((first + second, third), (broken, third)):
        ((record,), told) = records_of(aws_csv(*rows))
        assert [case.size_bytes for case in record.plan.cases] == [4294967296] * 2
        assert told == {"damaged"}


def test_a_report_that_is_damaged_before_its_results_says_where() -> None:
    text = json.dumps({"args": ["a"], "config": {"nranks": 8}, "results": []}, indent=1)
    for damaged, words in ((text.replace("8", "x"), " from line 6 on"), ('{x "results": []}', "")):
        assert read(damaged).no_text == "its JSON cannot be read" + words
