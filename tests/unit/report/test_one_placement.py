"""A run with one placement only, as logs of nccom-test give: a row a size, not one row for all."""

from __future__ import annotations

import io
from dataclasses import replace

from busbw.model.event import EventKind, event
from busbw.model.record import Method, RankInfo, WorldInfo
from busbw.model.result import CaseResult, Status
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Size
from busbw.plan.make import make_plan
from busbw.report.live import TableDisplay

WORLD = WorldInfo("mpi", "mpich", 2, tuple(RankInfo(rank, "node1", rank, rank) for rank in range(2)))


def test_a_row_ends_where_no_other_placement_follows() -> None:
    plan = make_plan(("all_reduce",), RunSettings(minbytes=Size("8"), maxbytes=Size("32")), "mpi", 2)
    apart = [case for case in plan.cases if not case.in_place]
    plan = replace(plan, cases=tuple(replace(case, index=index) for index, case in enumerate(apart)))
    out = io.StringIO()
    display = TableDisplay(out, io.StringIO(), live=False)
    display.handle(
        event(
            EventKind.HEADER,
            run_id="r",
            folder="f",
            busbw_version="0",
            plan=plan,
            world=WORLD,
            method=Method(),
        )
    )
    for index in range(len(apart)):
        result = CaseResult(index, Status.GOOD, time_ns=1000.0, algbw_gb_per_s=1.0, busbw_gb_per_s=1.0)
        display.handle(event(EventKind.CASE, result=result))
        rows = [line for line in out.getvalue().splitlines() if not line.startswith("#")]
        assert [line.split()[0] for line in rows] == ["8", "16", "32"][: index + 1]
