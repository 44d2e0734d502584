"""The text table and the JSON of nccl-tests."""

# ruff: noqa: E501 (tables have the width that their tools give them)

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest
from busbw_testing.exported import make

from busbw.foreign.forms.formats import render
from busbw.foreign.nccl_tests.write import format_float
from busbw.model.plan import CallOptions, Limits
from busbw.model.result import Status

# What nccl-tests 2.19.6 prints around its rows, as its printf formats give them.
HEADING = [
    "#                                                              out-of-place                       in-place          ",
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong ",
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         ",
]  # fmt: skip


def test_the_layout_is_that_of_the_original() -> None:
    lines = render(make(), "nccl-tests").decode().splitlines()
    at = lines.index(HEADING[0])
    assert lines[at : at + 3] == HEADING
    assert lines[at + 3] == (
        "        1024           256     float     sum      -1    10.00    0.10    0.15       0    20.00    0.05    0.08       0"
    )  # fmt: skip
    assert (
        "# nThread 1 nGpus 1 minBytes 1024 maxBytes 4096 step: 4(factor) warmup iters: 20 iters: 44"
        in " ".join(lines)
    )
    assert "#  Rank  1 Group  0 Pid    101 on      node0 device  1 [0000:01:00] NVIDIA H200" in lines
    assert "# Out of bounds values : 0 OK" in lines
    assert "# Avg bus bandwidth    : 0.1472 " in lines
    assert lines[-2:] == ["#", ""]


def test_what_is_not_good_is_shown_and_named() -> None:
    record = make(
        sizes=(1024, 2048, 4096, 8192),
        both=(
            (10_000.0, Status.NOT_APPLICABLE),
            (Status.WRONG, 1.0),
            (Status.FAILED, 2.0),
            (Status.NOT_RUN, 3.0),
        ),
    )
    text = render(record, "nccl-tests").decode()
    assert re.search(r"^ +1024 .*  0.15       0      nan     nan     nan     N/A$", text, re.MULTILINE)
    assert re.search(r"^ +2048 .*     5.00     nan     nan      17 ", text, re.MULTILINE)
    assert "# busbw: not-applicable, in-place, 1 case (1024 B): why it is so" in text
    assert "# busbw: WRONG, out-of-place, 1 case (2048 B): 17 wrong elements" in text
    assert "# busbw: failed, out-of-place, 1 case (4096 B): why it is so" in text
    assert "# busbw: not-run, out-of-place, 1 case (8192 B)" in text
    assert "# Out of bounds values : 1 FAILED" in text
    assert "# busbw: the average is over 4 of 8 cases" in text


def test_rows_are_as_long_as_those_of_the_original() -> None:
    """52 characters of the case; 33 of a placement."""
    for both in (((1.0, 2.0), (3.0, 4.0)), ((1.0, 2.0), (3.0, Status.FAILED))):
        lines = render(make(both=both), "nccl-tests").decode().splitlines()
        assert {len(line) for line in lines if line.startswith("   ")} == {52 + 33 + 33}


def test_the_json_has_the_fields_of_the_original() -> None:
    record = make()
    plan = replace(
        record.plan, limits=Limits(calls=40, warmup_calls=10), options=CallOptions(aggregate=2, graph=3)
    )
    document = json.loads(render(replace(record, plan=plan), "nccl-tests-json"))
    assert document["version"] == 3
    assert (document["start_time"], document["end_time"]) == ("2026-01-02 03:04:05", "2026-01-02 03:05:06")
    assert document["args"] == ["all_reduce_perf"]
    assert document["env"] == ["NCCL_DEBUG=WARN"]
    assert document["nccl_version"] == 23004
    config = document["config"]
    assert (
        config["iterations"],
        config["warmup_iters"],
        config["aggregated_iterations"],
        config["graph"],
    ) == (20, 5, 2, 3)
    assert document["results"][0]["root"] == "    -1"
    assert document["results"][0]["actual_iterations"] == 44
    assert document["average_bus_bandwidth"]["okay"] == "unchecked"


@pytest.mark.parametrize(
    ("value", "width", "text"),
    [
        (8.0, 7, "   8.00"),
        (12345.67, 7, "12345.7"),
        (123456.7, 7, " 123457"),
        (12345678.9, 7, "1.2e+07"),
        (1234.56, 6, "1234.6"),
        (1e7, 6, " 1e+07"),
        (None, 6, "   nan"),
    ],
)
def test_numbers_have_the_digits_of_the_original(value: float | None, width: int, text: str) -> None:
    assert format_float(value, width) == text


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((8,), "step: 0(bytes)"),
        ((8, 16, 32), "step: 2(factor)"),
        ((1024, 2048, 3072), "step: 1024(bytes)"),
        ((1024, 2048, 3000), "step: 0(bytes)"),
        ((0, 16, 32), "step: 16(bytes)"),
    ],
)
def test_the_step_is_read_from_the_sizes(sizes: tuple[int, ...], words: str) -> None:
    text = render(make(sizes=sizes, both=((1.0, 1.0),) * len(sizes)), "nccl-tests").decode()
    assert words in text


def test_calls_that_differ_are_zero_and_said() -> None:
    record = make()
    first, *others = record.results
    text = render(replace(record, results=(replace(first, samples=99), *others)), "nccl-tests").decode()
    assert " iters: 0 agg" in text
    assert "# busbw: step, iters or warmup iters 0 = differs from case to case" in text


def test_other_libraries_have_no_nccl_version() -> None:
    record = make()
    ranks = tuple(replace(rank, library="MPI", library_version="MPICH 5.0.2") for rank in record.world.ranks)
    document = json.loads(
        render(replace(record, world=replace(record.world, ranks=ranks)), "nccl-tests-json")
    )
    assert document["nccl_version"] is None


def test_one_rank_has_no_bus_bandwidth() -> None:
    text = render(make(ranks=1), "nccl-tests").decode()
    assert "# Avg bus bandwidth    : nan " in text
    document = json.loads(render(make(ranks=1), "nccl-tests-json"))
    assert document["average_bus_bandwidth"]["bandwidth"] == "nan"
    assert not math.isnan(document["results"][0]["out_of_place"]["alg_bw"])


def test_ranks_that_a_log_did_not_name_are_not_listed() -> None:
    record = make()
    stand_in = replace(record.world.ranks[0], host="not stated")
    record = replace(record, world=replace(record.world, ranks=(stand_in,)))
    text = render(record, "nccl-tests").decode()
    assert "#  Rank" not in text
    assert "NCCL 2.30.4, backend nccl, 4 ranks\n" in text
    assert json.loads(render(record, "nccl-tests-json"))["config"]["devices"] == []


@pytest.mark.parametrize("to", ["nccl-tests", "nccl-tests-json"])
def test_groups_of_the_run_are_in_the_list_of_devices(to: str) -> None:
    record = make()
    record = replace(record, plan=replace(record.plan, groups=((0, 2), (1, 3))))
    text = render(record, to).decode()
    if to == "nccl-tests":
        found = [int(line.split()[4]) for line in text.splitlines() if line.startswith("#  Rank")]
    else:
        found = [device["group"] for device in json.loads(text)["config"]["devices"]]
    assert found == [0, 1, 0, 1]
