from __future__ import annotations

from dataclasses import replace

import pytest

from busbw.model.event import Event, EventKind, decode, encode, event
from busbw.model.plan import Plan
from busbw.model.record import Method, RankInfo, WorldInfo
from busbw.model.result import CaseResult, Status, StopReason, WrongData
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Size
from busbw.plan.make import make_plan


@pytest.fixture
def plan() -> Plan:
    settings = RunSettings(minbytes=Size("1K"), maxbytes=Size("2K"), seed=11, check=2)
    return make_plan(("all_reduce", "sendrecv"), settings, "nccl", 2)


@pytest.fixture
def world() -> WorldInfo:
    library = {"library": "NCCL", "library_version": "2.30.4", "library_path": "/opt/libnccl.so.2"}
    ranks = tuple(RankInfo(i, f"node{i}", 50, 0, device="NVIDIA H200", **library) for i in range(2))
    return WorldInfo("nccl", "torchrun", 2, ranks)


TIMED = CaseResult(0, Status.GOOD, samples=8, calls_per_sample=4, warmup_calls=20, wrong=0)
WRONG = CaseResult(3, Status.WRONG, 12345.6, 12000.0, 12600.0, 12400.0, samples=11, calls_per_sample=1)


@pytest.fixture
def results() -> list[CaseResult]:
    """Of the first five cases; the fourth is wrong on rank 1, the run ends before the sixth."""

    def good(case: int, time_ns: float) -> CaseResult:
        times = {"time_ns": time_ns, "low_ns": time_ns * 0.99, "high_ns": time_ns * 1.01, "mean_ns": time_ns}
        rates = dict.fromkeys(("algbw_gb_per_s", "busbw_gb_per_s"), 1024 / time_ns)
        return replace(TIMED, case=case, stop=StopReason.PRECISION, **times, **rates)

    at = (WrongData(1, "node1", 17, 5),)
    wrong = replace(WRONG, stop=StopReason.CASE_TIME, wrong=17, wrong_at=at)
    return [good(0, 1000.0), good(1, 2000.0), good(2, 4000.0), wrong, good(4, 1e8)]


@pytest.fixture
def events(plan: Plan, world: WorldInfo, results: list[CaseResult]) -> list[Event]:
    """A run's stream as it arrives: every event has been a line of text."""
    header = event(
        EventKind.HEADER,
        run_id="id",
        folder="/runs/id",
        busbw_version="0.1.0",
        plan=plan,
        world=world,
        method=Method(buffers="rotating through the largest size"),
    )
    cases = [event(EventKind.CASE, result=result) for result in results]
    items = [header, *cases, event(EventKind.END, folder="/runs/id")]
    return [item for item in (decode(encode(item)) for item in items) if item is not None]
