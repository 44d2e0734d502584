"""The text table and the JSON of nccom-test."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from busbw_testing.exported import make

from busbw.foreign.forms.formats import render
from busbw.model.record import ImportSource, Method
from busbw.model.result import Status

HEADING = (
    "     size(B)    count(elems)      type    time:p50(us)    time:avg(us)    algbw(GB/s)    busbw(GB/s)"
)


def parse(text: str) -> list[tuple[list[str], dict[int, list[list[str]]]]]:
    """Each table's column names and, by size, its rows of words. A row begins with a size."""
    found: list[tuple[list[str], dict[int, list[list[str]]]]] = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["size(B)"]:
            found.append((words, {}))
        elif (line.startswith(" ") or line[:1].isdigit()) and "errors found" not in line:
            found[-1][1].setdefault(int(words[0]), []).append(words)
    return found


def test_the_layout_is_that_of_the_original() -> None:
    lines = render(make(sizes=(1024, 33554432)), "nccom").decode().splitlines()
    at = lines.index("# nccom-test -r 4 allr")
    assert lines[at - 1] == "# busbw: all_reduce float sum out-of-place, 4 ranks"
    assert lines[at + 1] == HEADING
    assert lines[at + 2] == (
        "        1024             256      fp32           10.00           15.00           0.10           0.15"
    )
    assert lines[at + 3].startswith("    33554432         8388608      fp32           40.00")
    assert lines[at + 4] == "Avg bus bandwidth:\t629.2224GB/s"


def test_a_failed_row_is_a_size_and_words() -> None:
    both = ((10_000.0, Status.NOT_APPLICABLE), (Status.WRONG, Status.NOT_APPLICABLE))
    text = render(make(both=both), "nccom").decode()
    assert "\n        4096    WRONG: 17 wrong elements\n" in text
    assert "\n1 errors found - test failed\n" in text
    assert "# busbw: the average is over 1 of 2 rows" in text
    assert "# busbw: all_reduce: not-applicable, in-place, 2 cases (1024, 4096 B): why it is so" in text
    assert text.count("size(B)") == 1


def test_an_operation_that_is_only_in_place_is_the_results() -> None:
    record = make("broadcast", both=((Status.NOT_APPLICABLE, 1_000.0), (Status.NOT_APPLICABLE, 2_000.0)))
    document = json.loads(render(record, "nccom-json"))
    assert {row["placement"] for row in document["results"]} == {"in-place"}
    assert [row["time:p50(us)"] for row in document["results"]] == [1.0, 2.0]
    assert "results_in_place" not in document
    assert "# nccom-test -r" not in render(record, "nccom").decode()  # it has no broadcast


@pytest.mark.parametrize(
    ("words", "column"),
    [
        ("mean over the measured calls (nccom-test)", "time:avg(us)"),
        ("the column time(us) of nccom-test: which statistic it is, the log does not say", "time:avg(us)"),
        ("p99 of the measured calls (nccom-test)", "time:p99(us)"),
        ("maximum over ranks of the mean over the repetitions (IMB: t_max)", "time:avg(us)"),
        ("geometric mean over 5 launches of the median over samples", "time:p50(us)"),
    ],
)
def test_the_header_names_the_statistic_of_the_headline(words: str, column: str) -> None:
    source = None if "launches" in words else ImportSource("a.log", "nccom-test")
    record = replace(make(), method=Method(time=words), source=source)
    heading = next(line for line in render(record, "nccom").decode().splitlines() if "count(elems)" in line)
    assert heading.split()[3] == column


def test_sizes_of_buffers_stand_behind_the_count_where_every_row_has_them() -> None:
    record = make(sizes=(1024, 33554432))
    told = tuple(replace(each, input_bytes=7, output_bytes=9) for each in record.results)
    ((names, rows), *_) = parse(render(replace(record, results=told), "nccom").decode())
    assert names[:5] == [
        *("size(B)", "count(elems)", "total_input_size(B)", "total_output_size(B)", "type"),
    ]
    assert rows[1024][0][2:4] == ["7", "9"]
    for part in (record.results, (told[0], *record.results[1:])):
        text = render(replace(record, results=part), "nccom").decode()
        assert "total_input_size(B)" not in text
