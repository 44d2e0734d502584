"""What every rank does with a plan: measure the cases in order and bring the samples to rank 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from busbw.backends.base import Backend
from busbw.backends.create import create, preflight
from busbw.model.case import Case
from busbw.model.plan import Plan
from busbw.model.record import Method, WorldInfo
from busbw.model.result import CaseResult, Status
from busbw.stats import stopping
from busbw.stats.interval import estimate
from busbw.units import gb_per_s
from busbw.worker.agree import agreed
from busbw.worker.describe import describe
from busbw.worker.measure import Samples, measure
from busbw.worker.retain import NOTHING_KEPT, RULE, Kept, retain
from busbw.worker.verify import Verdict, verify
from busbw.world.base import World


class Observer(Protocol):
    """What rank 0 tells whoever writes and shows the run."""

    def started(self, world: WorldInfo, method: Method) -> None:
        """Everybody is there and connected."""

    def finished(self, result: CaseResult, kept: Kept) -> None:
        """One case is done."""


@dataclass(frozen=True)
class Outcome:
    """How this rank's part of the run ended."""

    wrong_cases: int


def run(world: World, plan: Plan, observer: Observer | None) -> Outcome:
    """Measure all cases of the plan. Collective over the world; ``observer`` is rank 0's and None elsewhere.

    Raises RefusedTogether on all ranks where the run cannot start, and BusbwError on the rank where it broke.
    """
    agreed(world, lambda: preflight(plan, world))
    backend = agreed(world, lambda: create(plan, world))
    backend.connect(world)
    # Each rank measured its own cost of timing; k follows from it, and must be the same everywhere.
    timing_cost_ns = float(world.max(np.array([backend.timing_cost_ns]))[0])
    info = agreed(world, lambda: describe(world, backend))
    if observer is not None and info is not None:
        observer.started(info, _method(plan, timing_cost_ns))
    wrong = 0
    for case in plan.cases:
        result, kept = _run_case(case, plan, backend, world, timing_cost_ns)
        wrong += result.status is Status.WRONG
        if observer is not None:
            observer.finished(result, kept)
    world.barrier()
    backend.close()
    return Outcome(wrong)


def _run_case(
    case: Case, plan: Plan, backend: Backend, world: World, timing_cost_ns: float
) -> tuple[CaseResult, Kept]:
    if not case.applicable:
        return CaseResult(case.index, Status.NOT_APPLICABLE), NOTHING_KEPT
    prepared = backend.prepare(case)
    try:
        verdict = verify(case, prepared, world, plan.seed, plan.checks) if plan.checks else None
        samples = measure(
            prepared,
            world,
            plan.limits,
            timing_cost_ns=timing_cost_ns,
            max_samples_per_look=backend.max_samples_per_look,
        )
    finally:
        prepared.close()
    return summarize(case, samples, verdict, world.size), retain(case.index, samples, world)


def summarize(case: Case, samples: Samples, verdict: Verdict | None, ranks: int) -> CaseResult:
    """The headline of a case: median over samples of the maximum over ranks, with its 95 % interval.

    A wrong case keeps its time, but has no bandwidth: nothing was delivered at that rate.
    """
    headline = estimate(samples.times_ns, stopping.reported_confidence(samples.stop))
    wrong = verdict is not None and verdict.wrong > 0
    algbw = None if wrong or not headline.median else gb_per_s(case.size_bytes, headline.median)
    return CaseResult(
        case=case.index,
        status=Status.WRONG if wrong else Status.GOOD,
        time_ns=headline.median,
        low_ns=headline.low,
        high_ns=headline.high,
        mean_ns=headline.mean,
        algbw_gb_per_s=algbw,
        busbw_gb_per_s=None if algbw is None or ranks == 1 else algbw * case.row.busbw_factor(ranks),
        samples=headline.samples,
        calls_per_sample=samples.k,
        warmup_calls=samples.warmup_calls,
        stop=samples.stop,
        wrong=verdict.wrong if verdict is not None else None,
        wrong_at=verdict.wrong_at if verdict is not None else (),
    )


def _method(plan: Plan, timing_cost_ns: float) -> Method:
    return Method(
        buffers="rotating through the largest size" if plan.rotate else "one place (hot)",
        retention=RULE,
        timing_cost_ns=timing_cost_ns,
    )
