"""Two-level iterations: w untimed and n timed calls, repeated I times behind W untimed repetitions.

As nccom-test counts: (n + w) (I + W) calls are run and n I of them measured. Nothing is adaptive here, so the
counts are exact; the check of the case comes on top, before.
"""

from __future__ import annotations

from busbw.backends.base import PreparedCase
from busbw.model.plan import Limits
from busbw.model.result import StopReason
from busbw.stats import stopping
from busbw.worker.measure import Conditions, Samples, Sampling, Taken, agreed_call_ns


def measure_repeated(prepared: PreparedCase, given: Conditions, limits: Limits) -> Samples:
    """Time one case with ``limits.outer_iters`` repetitions. Collective over the world."""
    assert limits.calls, "the plan has -n with repetitions"
    timed, untimed = limits.calls, limits.warmup_calls or 0
    call_ns = 0.0  # not known yet
    for _ in range(limits.outer_warmup_iters):
        call_ns = agreed_call_ns(prepared, given.world, timed + untimed)
    run = limits.outer_warmup_iters * (timed + untimed)
    group = prepared.calls_per_issue
    taken, sampling = Taken.none(group), Sampling(prepared, given, call_ns)
    for repetition in range(limits.outer_iters):
        lead = untimed
        if not call_ns and untimed:  # the first untimed calls tell the pace
            call_ns, lead = agreed_call_ns(prepared, given.world, untimed), 0
        if repetition == 0:
            taken = Taken.none(group * _issues_per_sample(timed // group, call_ns / group, given))
        taken = _one(sampling, taken, timed // taken.k, lead, given)
        run += untimed
    return Samples(taken, run, call_ns, StopReason.CALLS, lost_ns=sampling.lost_ns)


def _one(sampling: Sampling, taken: Taken, samples: int, lead: int, given: Conditions) -> Taken:
    """One repetition: as many looks as the events of a look allow, the first behind the untimed calls."""
    wanted = len(taken.across) + samples
    while len(taken.across) < wanted:
        look = min(wanted - len(taken.across), given.max_samples_per_look)
        taken = sampling.add(taken, look, lead=lead)
        lead = 0
    return taken


def _issues_per_sample(issues: int, issue_ns: float, given: Conditions) -> int:
    """A divisor of the issues, so that none is left out: as few as timing allows, all in loop mode."""
    if given.loops:
        return issues
    if given.timing.mode == "latency" or issue_ns <= 0:
        return 1
    fitting = stopping.calls_per_sample(issue_ns, given.timing_cost_ns)
    most = max(1, min(fitting, issues // stopping.FIRST_LOOK))
    return max(divisor for divisor in range(1, most + 1) if issues % divisor == 0)
