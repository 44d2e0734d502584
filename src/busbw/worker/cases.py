"""The cases of a run, step after step: checked, measured and summarized within the sweep's budget."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from busbw.backends.base import Backend, DeviceState, PreparedCase
from busbw.backends.buffers import checkable
from busbw.backends.streams import StreamsBackend
from busbw.model.case import Case
from busbw.model.choice import Choice, agreed_choice
from busbw.model.plan import Limits, Plan
from busbw.model.result import CaseResult, Status, StopReason
from busbw.model.traffic import Burst
from busbw.worker.across_ranks import Grouping
from busbw.worker.deadline import Deadline
from busbw.worker.measure import Conditions, Samples, first_call, measure
from busbw.worker.outer import measure_repeated
from busbw.worker.retain import NOTHING_KEPT, Kept, retain
from busbw.worker.streams import first_calls_ns, measure_together
from busbw.worker.summarize import summarize
from busbw.worker.verify import Checkable, Verdict, verify
from busbw.worker.wrong import WrongKeeper
from busbw.world.base import World
from busbw.world.clock import Recheck, recheck, synchronise
from busbw.world.mpi import MpiWorld

if TYPE_CHECKING:
    from busbw.worker.wrong import Saves

# NVML's reasons are bits of one number; a maximum over ranks needs them apart.
_THROTTLE_BITS: Final = 16
_LEAST_OVERLAP: Final = 0.9  # below, a stream's time is that of running alone too
_NO_CLOCK: Final = 2**31  # beyond any clock in MHz

Done = tuple[CaseResult, Kept]


def grouping(plan: Plan, world: World) -> Grouping | None:
    """Where this rank is in the groups of the plan; None where there are none."""
    if not plan.groups:
        return None
    place = plan.group_of(world.rank, world.size)
    return Grouping(plan.groups, None) if place is None else Grouping(plan.groups, place.group, place.rank)


class Session:
    """The cases of one run, one after another, within the sweep's budget."""

    def __init__(
        self,
        plan: Plan,
        backend: Backend,
        given: Conditions,
        deadline: Deadline,
        observer: Saves | None,
    ) -> None:
        self._plan, self._backend, self._given, self._deadline = plan, backend, given, deadline
        self._keeper = WrongKeeper(given.world, observer)
        self._start_s = time.monotonic()
        self._done = 0
        self._reasons = self._agreed_reasons()

    def _agreed_reasons(self) -> list[str]:
        """Why cases do not apply; every rank skips what any of them cannot do."""
        own = [case.reason or self._backend.inapplicable(case) for case in self._plan.cases]
        found = np.array([bool(reason) for reason in own], np.int64)
        anywhere = self._given.world.max(found) if own else found
        return [
            reason or "another rank's device or library cannot do it" if skipped else ""
            for reason, skipped in zip(own, anywhere, strict=True)
        ]

    def step(self, cases: tuple[Case, ...]) -> list[Done]:
        """Check and measure what runs at once: one case, or one of every stream. Collective."""
        limits = self._share_of_budget(len(cases))
        self._done += len(cases)
        if any(self._reasons[case.index] for case in cases):
            return [(self._not_applicable(case, cases), NOTHING_KEPT) for case in cases]
        if limits is None:
            budget_s = self._plan.limits.budget_seconds
            spent = f"the budget of {budget_s:g} s ended before; a longer --budget has time for it"
            return [(CaseResult(case.index, Status.NOT_RUN, error=spent), NOTHING_KEPT) for case in cases]
        with self._deadline.for_case(cases[0]):
            if isinstance(self._backend, StreamsBackend):
                return self._checked_and_measured_at_once(cases, limits, self._backend)
            return [self._checked_and_measured(cases[0], limits)]

    def bursts(self) -> Iterator[Burst]:
        """What links carry, behind everything that is timed; on rank 0. Collective."""
        from busbw.worker.burst import burst, burst_cases, reader

        world = self._given.world
        read = reader(world, self._backend.identity.device_uuid)
        for case in burst_cases(self._plan):
            if self._reasons[case.index]:
                continue
            with self._deadline.for_case(case):
                prepared = self._backend.prepare(case)
                try:
                    found = burst(case, prepared, world, read)
                finally:
                    prepared.close()
            if found is not None:
                yield found

    def _not_applicable(self, case: Case, cases: Sequence[Case]) -> CaseResult:
        """Where one stream of a step cannot run, the others would not run beside what they say."""
        refused = next(other for other in cases if self._reasons[other.index])
        why = self._reasons[case.index] or (
            f"stream {refused.stream} does not apply beside it: {self._reasons[refused.index]}"
        )
        return CaseResult(case.index, Status.NOT_APPLICABLE, error=why)

    def _checked_and_measured_at_once(
        self, cases: tuple[Case, ...], limits: Limits, backend: StreamsBackend
    ) -> list[Done]:
        plan, world = self._plan, self._given.world
        givens = [self._given_in(case) for case in cases]
        step = backend.prepare_step(cases)
        try:
            first_ns = first_calls_ns(step, self._given, plan.streams)
            verdicts = [self._verdict(case, part) for case, part in zip(cases, step.parts, strict=True)]
            choices = [self._choice(case, part) for case, part in zip(cases, step.parts, strict=True)]
            if limits.calls == 0:
                checked = [
                    _checked_only(case, *verdict) for case, verdict in zip(cases, verdicts, strict=True)
                ]
                return [(result, NOTHING_KEPT) for result in checked]
            found = measure_together(step, givens, plan.streams, limits, first_ns)
            device = _worst_state(backend.device_state(), world)
        finally:
            step.close()
        each = zip(cases, found, verdicts, givens, choices, strict=True)
        return [
            self._result(case, part.samples, verdict, device, limits, given, choice, part.overlap)
            for case, part, verdict, given, choice in each
        ]

    def _checked_and_measured(self, case: Case, limits: Limits) -> Done:
        prepared, given = self._backend.prepare(case), self._given_in(case)
        try:
            # Before the check, or the case would not be cold any more.
            first_ns = self._first_call_ns(prepared, limits)
            verdict, marks = self._verdict(case, prepared)
            choice = self._choice(case, prepared)
            if limits.calls == 0:
                return _checked_only(case, verdict, marks), NOTHING_KEPT
            take = measure_repeated if limits.outer_iters else measure
            samples = replace(take(prepared, given, limits), first_call_ns=first_ns)
            device = self._backend.device_state()  # at once: clocks fall when the work ends
        finally:
            prepared.close()
        clock = self._rechecked()  # at once: it is what this case's readings are worth
        state = _worst_state(device, self._given.world)
        done = self._result(case, samples, (verdict, marks), state, limits, given, choice, clock=clock)
        self._keep_clock(clock)
        return done

    def _result(
        self,
        case: Case,
        samples: Samples,
        verdict: tuple[Verdict | None, tuple[str, ...]],
        device: DeviceState | None,
        limits: Limits,
        given: Conditions,
        choice: Choice | None,
        overlap: float | None = None,
        clock: Recheck | None = None,
    ) -> Done:
        """What is told and what is kept of a measured case. Collective."""
        plan = self._plan
        if samples.stop is StopReason.CASE_TIME and limits.case_seconds < plan.limits.case_seconds:
            samples = replace(samples, stop=StopReason.BUDGET)
        checked, marks = verdict
        marks += ("part-alone",) if overlap is not None and overlap < _LEAST_OVERLAP else ()
        result = summarize(
            case, samples, checked, given, show=plan.show, marks=marks, device=device, clock=clock
        )
        words = choice.words if choice is not None else ""
        result = self._with_bytes(case, replace(result, overlap=overlap, algorithm=words, choice=choice))
        return result, retain(case.index, samples, given.world, plan.raw_ranks, took_part=given.takes_part)

    def _given_in(self, case: Case) -> Conditions:
        """What holds for one case: its groups, and whether this rank has no part in it. Collective."""
        world, plan = self._given.world, self._plan.of_case(case)
        given = replace(self._given, grouping=grouping(plan, world)) if self._plan.streams else self._given
        if not (plan.pairs or plan.counts):
            return given
        own = sum(self._plan.rank_bytes(case, world.rank, world.size))
        most = int(world.max(np.array([own], np.int64))[0])
        return replace(given, idle=own == 0 and most > 0)

    def _first_call_ns(self, prepared: PreparedCase, limits: Limits) -> float:
        """Of the cold first call; 0 where the number of calls is exact, and this is not among them."""
        if limits.calls == 0 or limits.outer_iters:
            return 0.0
        return first_call(prepared, self._given.world)

    def _with_bytes(self, case: Case, result: CaseResult) -> CaseResult:
        """With what a rank has in its buffers, where that was asked for. Collective."""
        if not {"in", "out"} & set(self._plan.show):
            return result
        world = self._given.world
        own = self._plan.rank_bytes(case, world.rank, world.size)
        most = world.max(np.array(own, np.int64)).tolist()
        return replace(result, input_bytes=most[0], output_bytes=most[1])

    def _verdict(self, case: Case, prepared: Checkable) -> tuple[Verdict | None, tuple[str, ...]]:
        world = self._given.world
        marks = self._backend.marks(case)
        if self._given.contended:
            marks = ("contended", *marks)
        if self._given.shares_gpu:
            marks = ("shared-gpu", *marks)
        if self._given.profiled:
            marks = ("profiled", *marks)
        plan = self._plan.of_case(case)
        if plan.checks == 0 or not case.row.sized:
            return None, marks
        if not all(checkable(case, ranks, plan.data) for ranks in {*map(len, plan.groups)} or {world.size}):
            return None, ("unchecked", *marks)
        on_wrong = self._keeper.of(case.index, prepared) if plan.save_wrong else None
        return verify(case, prepared, world, plan.seed, plan.checks, plan.groups, on_wrong), marks

    def _choice(self, case: Case, prepared: object) -> Choice | None:
        """How the library does the case, where that was asked for; known on rank 0. Collective."""
        if not self._plan.watches or not case.row.sized:
            return None
        own = self._backend.choice(case, prepared)
        told = self._given.world.gather(json.dumps(own and asdict(own)).encode())
        return agreed_choice([choice for text in told or () if (choice := Choice.of(json.loads(text)))])

    def _share_of_budget(self, cases: int) -> Limits | None:
        """The run's limits, cut to the share of so many cases of what is left of the budget; None where
        nothing is.
        """
        limits = self._plan.limits
        if limits.budget_seconds is None:
            return limits
        spent_s = float(self._given.world.max(np.array([time.monotonic() - self._start_s]))[0])
        share_s = (limits.budget_seconds - spent_s) * cases / (len(self._plan.cases) - self._done)
        return replace(limits, case_seconds=min(limits.case_seconds, share_s)) if share_s > 0 else None

    def _rechecked(self) -> Recheck | None:
        """What the synchronised clocks are worth now; None where there are none. Collective."""
        clock, world = self._given.clock, self._given.world
        return recheck(world, clock) if clock is not None and isinstance(world, MpiWorld) else None

    def _keep_clock(self, found: Recheck | None) -> None:
        """The clock for the next case: a new one where the finding asks for it, else with the error that was
        found last. A larger one before says nothing about the readings to come. Collective.
        """
        clock, world = self._given.clock, self._given.world
        if found is None or clock is None or not isinstance(world, MpiWorld):
            return
        kept = synchronise(world) if found.renew else replace(clock, error_ns=found.error_ns)
        self._given = replace(self._given, clock=kept)


def _checked_only(case: Case, verdict: Verdict | None, marks: tuple[str, ...]) -> CaseResult:
    wrong = verdict is not None and verdict.wrong > 0
    return CaseResult(
        case=case.index,
        status=Status.WRONG if wrong else Status.GOOD,
        stop=StopReason.CHECK_ONLY,
        wrong=verdict.wrong if verdict is not None else None,
        wrong_at=verdict.wrong_at if verdict is not None else (),
        marks=marks,
    )


def _worst_state(own: DeviceState | None, world: World) -> DeviceState | None:
    """The lowest clock of any rank's device, and every reason that any of them has. Collective."""
    bits = [own.throttle_bits >> bit & 1 if own is not None else 0 for bit in range(_THROTTLE_BITS)]
    found = world.max(np.array([-own.clock_mhz if own is not None else -_NO_CLOCK, *bits], np.int64))
    if -found[0] == _NO_CLOCK:
        return None
    raised = sum(int(bit) << place for place, bit in enumerate(found[1:]))
    return DeviceState(clock_mhz=int(-found[0]), throttle_bits=raised)
