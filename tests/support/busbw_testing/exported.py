"""Records as busbw writes them, random ones too: every placement and status, marks, failed and cut runs."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from busbw.model.case import Case
from busbw.model.collective import COLLECTIVES, Placement, collective
from busbw.model.datatype import DATA_TYPES, REDUCE_OPS
from busbw.model.plan import Limits, Plan
from busbw.model.record import SCHEMA_VERSION, Method, RankInfo, RunRecord, RunStatus, WorldInfo
from busbw.model.result import CaseResult, Status, StopReason, WrongData

TIMES_NS = st.floats(1.0, 1e12, allow_nan=False)
ERRORS = ("", "ncclInternalError: line\nbreaks | and, commas", "no such placement")


def world(ranks: int) -> WorldInfo:
    same = {"device": "NVIDIA H200", "library": "NCCL", "library_version": "2.30.4"}
    infos = tuple(
        RankInfo(i, f"node{i // 2}", 100 + i, i % 2, **same, facts={"pci_bus_id": f"0000:0{i % 2}:00.0"})
        for i in range(ranks)
    )
    return WorldInfo("nccl", "torchrun", ranks, infos)


def record(plan: Plan, results: tuple[CaseResult, ...], ranks: int = 4) -> RunRecord:
    return RunRecord(
        schema=SCHEMA_VERSION,
        run_id="20260102-030405-all_reduce-00ff",
        busbw_version="0.1.0",
        created="2026-01-02T03:04:05.000+00:00",
        argv=("busbw", "run", "all_reduce"),
        settings={},
        plan=plan,
        status=RunStatus.COMPLETE,
        method=Method(),
        world=world(ranks),
        environment={"variables": {"NCCL_DEBUG": "WARN"}},
        results=results,
        ended="2026-01-02T03:05:06.500+00:00",
    )


def good(case: Case, time_ns: float, ranks: int, **fields: object) -> CaseResult:
    """A result whose bandwidths follow from its time."""
    algbw = case.size_bytes / time_ns
    busbw = None if ranks == 1 else algbw * case.row.busbw_factor(ranks)
    result = CaseResult(
        case.index, Status.GOOD, time_ns, time_ns * 0.99, time_ns * 1.02, time_ns * 1.5, algbw, busbw,
        samples=11, calls_per_sample=4, warmup_calls=20, stop=StopReason.PRECISION, wrong=0,
    )  # fmt: skip
    return replace(result, **fields)  # type: ignore[arg-type]


def make(
    name: str = "all_reduce",
    sizes: tuple[int, ...] = (1024, 4096),
    both: tuple[tuple[object, object], ...] = ((10_000.0, 20_000.0), (40_000.0, 30_000.0)),
    ranks: int = 4,
) -> RunRecord:
    """A record of one collective: for each size the results of both placements, by a word or a time in ns."""
    row = collective(name)
    cases, results = [], []
    for size, outcomes in zip(sizes, both, strict=True):
        for placement, outcome in zip(Placement, outcomes, strict=True):
            root, op = 0 if row.rooted else -1, "sum" if row.reducing else ""
            case = Case(len(cases), name, "float", op, root, size, size, size // 4, placement)
            cases.append(case)
            results.append(_result(case, outcome, ranks))
    plan = Plan("nccl", tuple(cases), max(sizes), Limits(), 1, 7)
    return record(plan, tuple(results), ranks)


def joined(first: RunRecord, second: RunRecord) -> RunRecord:
    """One run with the cases of both."""
    count = len(first.results)
    cases = tuple(replace(case, index=case.index + count) for case in second.plan.cases)
    results = tuple(replace(result, case=result.case + count) for result in second.results)
    plan = replace(first.plan, cases=(*first.plan.cases, *cases))
    return replace(first, plan=plan, results=(*first.results, *results))


def _result(case: Case, outcome: object, ranks: int) -> CaseResult:
    if isinstance(outcome, float):
        return good(case, outcome, ranks)
    if outcome == Status.WRONG:
        at = (WrongData(1, "node0", 17, 5),)
        result = good(case, 5_000.0, ranks, status=Status.WRONG, wrong=17, wrong_at=at)
        return replace(result, algbw_gb_per_s=None, busbw_gb_per_s=None)
    return CaseResult(
        case.index, Status(str(outcome)), error="" if outcome == Status.NOT_RUN else "why it is so"
    )


@st.composite
def results(draw: st.DrawFn, case: Case, ranks: int) -> CaseResult:
    status = draw(st.sampled_from(Status))
    if status in (Status.NOT_APPLICABLE, Status.FAILED, Status.NOT_RUN):
        return CaseResult(case.index, status, error=draw(st.sampled_from(ERRORS)))
    # A log can say that a row is wrong without saying in how many elements.
    counts = st.just(0) if status is Status.GOOD else st.integers(1, 2**40)
    wrong = draw(st.none() | counts)
    stats = draw(st.sampled_from(({}, {"p99": 12345.0}, {"p99": None, "imbalance": 5.0})))
    marks = draw(st.sampled_from(((), ("unstable",), ("stopped", "unheard-of"))))
    result = good(case, draw(TIMES_NS), ranks, wrong=wrong, stats=stats, marks=marks)
    result = replace(result, conditions=draw(st.sampled_from(((), ("contended", "grouped")))))
    if status is Status.GOOD and case.row.sized:
        return result
    return replace(result, status=status, algbw_gb_per_s=None, busbw_gb_per_s=None)


@st.composite
def records(draw: st.DrawFn, most_collectives: int = 3) -> RunRecord:
    ranks = draw(st.sampled_from((1, 2, 8)))
    some = st.lists(
        st.sampled_from(COLLECTIVES), min_size=1, max_size=most_collectives, unique_by=lambda row: row.name
    )
    rows = draw(some)
    cases: list[Case] = []
    for row in rows:
        op = draw(st.sampled_from(REDUCE_OPS)).name if row.reducing else ""
        counts = st.lists(st.integers(0, 2**18), min_size=1, max_size=4, unique=True)
        for count in draw(counts) if row.sized else [0]:
            dtype = draw(st.sampled_from(DATA_TYPES))
            size = count * ranks * dtype.size_bytes
            sides = draw(st.sampled_from((*((each,) for each in Placement), tuple(Placement))))
            for placement in sides:
                root = 0 if row.rooted else -1
                cases.append(Case(len(cases), row.name, dtype.name, op, root, size, size, count, placement))
    outcomes = tuple(draw(results(case, ranks)) for case in cases)
    kept = draw(st.integers(0, len(outcomes)))  # the rest of a killed run has no results at all
    plan = Plan("nccl", tuple(cases), 2**20, Limits(), 1, 7)
    made = record(plan, outcomes[:kept], ranks)
    if draw(st.booleans()):
        return made
    return replace(made, status=RunStatus.FAILED, error="rank 3 died\nwith words")
