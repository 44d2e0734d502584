"""Damaged exports of busbw: JSON, CSV, tables with lines of ours. No row that is not the original's, and none
lost without a word.
"""

import importlib.util
import io
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from busbw.errors import BusbwError
from busbw.foreign.forms.formats import render
from busbw.foreign.logs.assemble import assemble
from busbw.foreign.logs.decide import Given
from busbw.foreign.read_any import read_stream
from busbw.model.record import RunRecord

# A digit more in a count of wrong elements: nothing contradicts it.
UNSEEN = {
    "csv": {"insert_digit"},
    "nccl-tests-json": {"insert_digit"},
    "nccom-json": {"insert_digit"},
}
FORMATS = ("csv", "nccl-tests-json", "nccom-json")


@pytest.fixture(scope="module")
def damage() -> ModuleType:
    spec = importlib.util.spec_from_file_location("damage", Path(__file__).with_name("test_mutations.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def records_of(text: str) -> tuple[list[RunRecord], set[str]]:
    """The records of a text, and the kinds of what was said of it."""
    reading = read_stream(io.BytesIO(text.encode()), "a.log")
    told = {finding.kind for finding in reading.findings} | ({"cut"} if reading.no_text else set())
    found = []
    for number, table in enumerate(reading.tables, 1):
        origin = replace(reading.origin, table=number)
        try:
            found.append(assemble(table, origin, Given("all_reduce", 16), "run"))
        except BusbwError:
            told.add("damaged")
    return found, told | {finding.kind for record in found for finding in record.source.findings}


def rows_of(records: list[RunRecord]) -> set[tuple[Any, ...]]:
    return {
        (case.size_bytes, case.placement, result.time_ns, result.algbw_gb_per_s, result.wrong or 0)
        for record in records
        for case, result in zip(record.plan.cases, record.results, strict=True)
        if result.time_ns is not None
    }


def attack(name: str, text: str, seeds: range, damage: ModuleType) -> tuple[Counter[str], int]:
    """How many damaged texts lost a row without a word, by the kind of damage; how many rows were kept."""
    original = rows_of(records_of(text)[0])
    assert len(original) == 58
    silent: Counter[str] = Counter()
    kept = 0
    for seed in seeds:
        rng = random.Random(seed)
        mutation = rng.choice(damage.INSIDE)
        if mutation.__name__ in UNSEEN.get(name, ()):
            continue
        records, told = records_of(mutation(rng, text))
        found = rows_of(records)
        assert found <= original, f"seed {seed}"
        failed = any(result.error for record in records for result in record.results)
        silent[mutation.__name__] += found < original and not failed and not told & damage.TOLD
        kept += len(found & original)
    return silent, kept


@pytest.fixture
def export(nccl_table: Callable[[int], str], imported: Callable[..., list[RunRecord]]) -> RunRecord:
    (record,) = imported(nccl_table(3))
    return record


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_exports(name: str, export: RunRecord, damage: ModuleType) -> None:
    silent, kept = attack(name, render(export, name).decode(), range(25), damage)
    assert silent.total() == 0
    assert kept > 500


def test_rows_of_a_cut_report_keep_their_placement(export: RunRecord) -> None:
    text = render(export, "nccom-json").decode()
    original = rows_of(records_of(text)[0])
    records, told = records_of(text[: text.index('"busbw": {\n        "operation"')])
    assert rows_of(records) == original
    assert told == {"cut"}


def test_joined_and_broken_lines_of_a_csv_are_no_rows() -> None:
    head = (
        "Size_Bytes,Count,Data_Type,Operation,Root,OOP_Time_us,OOP_AlgBW_GBps,OOP_BusBW_GBps,OOP_Errors,"
        "IP_Time_us,IP_AlgBW_GBps,IP_BusBW_GBps,IP_Errors\n"
    )
    rows = [
        "1073741824,268435456,float,sum,-1,26217.0,40.96,76.79,0,26194.0,40.99,76.86,0",
        "2147483648,536870912,float,sum,-1,51406.0,41.78,78.33,0,51406.0,41.77,78.33,0",
        "4294967296,1073741824,float,sum,-1,102812.0,41.77,78.33,0,102812.0,41.77,78.33,0",
    ]
    broken = rows[1].replace("51406.0,41", "514\n06.0,41", 1)  # whose first half is a size and a time
    for text in (rows[0] + rows[1] + "\n" + rows[2] + "\n", broken + "\n" + rows[2] + "\n"):
        ((record,), told) = records_of(head + text)
        assert [case.size_bytes for case in record.plan.cases] == [4294967296] * 2
        assert told == {"damaged"}


def test_a_report_that_is_damaged_before_its_results_says_where() -> None:
    text = json.dumps({"args": ["a"], "config": {"nranks": 8}, "results": []}, indent=1)
    for damaged, words in ((text.replace("8", "x"), " from line 6 on"), ('{x "results": []}', "")):
        reading = read_stream(io.BytesIO(damaged.encode()), "a.json")
        assert reading.no_text == "its JSON cannot be read" + words
