"""Operations that ran at once, as tables: one a stream, the first as it goes."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from busbw.foreign.aws_kit import write as aws_kit
from busbw.foreign.forms.remarks import remarks
from busbw.foreign.forms.rows import tables
from busbw.judge.compare_arms import key_of
from busbw.model.event import EventKind, event
from busbw.model.plan import Plan
from busbw.model.record import SCHEMA_VERSION, Method, RankInfo, RunRecord, RunStatus, WorldInfo
from busbw.model.result import CaseResult, GroupResult, Status
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Size
from busbw.plan.make import make_plan
from busbw.report.live import create

RANKS = 4
WORLD = WorldInfo("mpi", "mpich", RANKS, tuple(RankInfo(rank, "vm", rank, rank) for rank in range(RANKS)))
ENTRIES = [
    {"operation": "all_reduce", "minbytes": 1024, "maxbytes": 2048, "stepfactor": 2, "group_size": 2},
    {"operation": "broadcast", "minbytes": 64, "maxbytes": 64, "ops_per_iter": 3},
]


def plan_of(entries: list[dict[str, Any]] = ENTRIES) -> Plan:
    text = "text:" + json.dumps({"streams": entries})
    return make_plan((), RunSettings(streams=text, data="random", seed=7), "mpi", RANKS)


def result(case: int, overlap: float | None) -> CaseResult:
    groups = (GroupResult(0, 2, 1024, 500.0), GroupResult(1, 2, 1024, 900.0)) if case % 2 == 0 else ()
    marks = ("part-alone",) if overlap is not None and overlap < 0.9 else ()
    return CaseResult(
        case, Status.GOOD, time_ns=1000.0 + case, overlap=overlap, samples=9, groups=groups, marks=marks
    )


RESULTS = (result(0, 0.5), result(1, 1.0), result(2, 0.94), result(3, None))


def shown(format_name: str, plan: Plan, results: tuple[CaseResult, ...] = RESULTS) -> list[str]:
    out = io.StringIO()
    display = create(format_name, out, io.StringIO())
    names = {"run_id": "r", "folder": "f", "busbw_version": "0", "machine": {}, "environment": {}}
    display.handle(event(EventKind.HEADER, plan=plan, world=WORLD, method=Method(), **names))
    before_the_end = []
    for one in results:
        display.handle(event(EventKind.CASE, result=one))
        before_the_end = out.getvalue().splitlines()
    display.handle(event(EventKind.END, status="complete", folder="f"))
    display.close()
    assert out.getvalue().splitlines()[: len(before_the_end)] == before_the_end
    return out.getvalue().splitlines()


def test_every_stream_has_a_table_and_every_row_says_what_ran_beside_it() -> None:
    lines = shown("table", plan_of())
    heads = [at for at, line in enumerate(lines) if line.startswith("# stream ") and ": " in line]
    assert [" ".join(lines[at].split()) for at in heads] == [
        "# stream 0: all_reduce out-of-place", "# stream 1: broadcast in-place"
    ]  # fmt: skip
    first = [line for line in lines[heads[0] : heads[1]] if not line.startswith("#")]
    second = [line for line in lines[heads[1] :] if not line.startswith("#")]
    # The first stream has two groups: all, each of them, and what they have in common; the second has none.
    assert [line.split()[5] for line in first] == ["all", "0", "1", "min", "median", "max"] * 2
    assert [line.split()[0] for line in second] == ["64", "64"]
    assert first[0].endswith("part-alone  beside broadcast float 64 B, balanced")
    assert second[1].endswith("beside all_reduce sum float 2048 B, balanced")
    assert "50%" in first[0]
    assert "n/a" in second[1]
    assert any(line.startswith("# overlap: ") for line in lines)
    # The header has each stream's calls and ranks.
    assert "# stream 0 all_reduce, as many calls as the slowest stream takes time for" in lines
    assert "# groups   2 at once, of ranks 0,1 | 2,3" in lines
    assert "# stream 1 broadcast, 3 calls an iteration" in lines
    assert sum(line.startswith("# data ") for line in lines) == 1


def test_csv_tells_rows_of_streams_apart() -> None:
    rows = list(csv.DictReader(shown("csv", plan_of())))
    said = [f"{row['stream']} {row['overlap']}" for row in rows]
    assert said == ["0 0.5", "1 1.0", "0 0.94", "1 "]
    assert rows[0]["beside"] == "broadcast float 64 B, balanced"
    alone = make_plan(("all_reduce",), RunSettings(minbytes=Size("8")), "mpi", 2)
    assert not {"stream", "beside"} & set(csv.DictReader(shown("csv", alone, RESULTS[:1])).fieldnames or ())


def record() -> RunRecord:
    return RunRecord(
        SCHEMA_VERSION, "r", "0", "", (), {}, plan_of(), RunStatus.COMPLETE, Method(), WORLD, results=RESULTS
    )


def test_exports_have_a_table_a_stream_and_say_what_ran_beside() -> None:
    same = {"operation": "all_reduce", "maxbytes": 64}
    found = tables(record())
    assert [(table.collective, len(table.rows)) for table in found] == [("all_reduce", 2), ("broadcast", 2)]
    twice = RunRecord(SCHEMA_VERSION, "r", "0", "", (), {}, plan_of([same, same]), RunStatus.COMPLETE)
    assert [(table.collective, len(table.rows)) for table in tables(twice)] == [("all_reduce", 1)] * 2
    assert "ran beside broadcast float 64 B, balanced: 2 cases (1024, 2048 B)" in remarks(found[0].rows)
    rows = list(csv.DictReader(aws_kit.write_results(record(), found).decode().splitlines()))
    said = [f"{row['Collective']} {row['Stream']} {row['Overlap']}" for row in rows]
    assert said == ["all_reduce 0 0.5", "all_reduce 0 0.94", "broadcast 1 1.0", "broadcast 1 nan"]


def test_a_time_beside_other_traffic_is_compared_with_its_like_only() -> None:
    beside, alone = plan_of(), make_plan(("all_reduce",), RunSettings(minbytes=Size("1024")), "mpi", 2)
    (only,) = plan_of(ENTRIES[:1]).steps[0]
    keys = [key_of(case).collective for case in (beside.cases[0], alone.cases[0], only)]
    assert keys == [
        "all_reduce beside broadcast float 64 B, balanced",
        "all_reduce",
        "all_reduce beside nothing, as a stream",
    ]
