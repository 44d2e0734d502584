"""The cases of a run, window after window: checked, measured in passes and summarized within the budget.

A window is neighbouring cases of the plan. Its first pass visits each of them, the next ones visit those
again that want more passes, so that the samples of a case lie far apart in time; results come at its end,
when the passes of its host-bound cases together show how far the host's levels reach.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from busbw.model.case import Case
from busbw.model.choice import Choice, agreed_choice
from busbw.model.plain import from_plain
from busbw.model.plan import Limits, Plan
from busbw.model.progress import Phase
from busbw.model.result import CaseResult, Status, StopReason
from busbw.model.traffic import Burst
from busbw.rank import progress
from busbw.rank.backends.base import Backend, DeviceState, Int64Array, PreparedCase
from busbw.rank.backends.buffers import checkable
from busbw.rank.backends.create import neighbours
from busbw.rank.backends.operation import AtOnce, OperationBeside
from busbw.rank.beside import measure_beside
from busbw.rank.measure import (
    Conditions,
    Samples,
    Taken,
    first_call,
    measure,
    measure_again,
    measure_repeated,
    measure_window,
)
from busbw.rank.process import Deadline
from busbw.rank.race import in_random_order, losers, race_of
from busbw.rank.reduce_samples import Grouping
from busbw.rank.retain import NOTHING_KEPT, Kept, retain
from busbw.rank.summarize import OWN, reach_of, summarize
from busbw.rank.verify import Checks, Issue, Saves, Verified, WrongKeeper
from busbw.rank.world.base import World, agreed
from busbw.rank.world.clock import Recheck, recheck, synchronise
from busbw.rank.world.mpi import MpiWorld
from busbw.stats.passes import is_due
from busbw.units import format_size

if TYPE_CHECKING:
    from busbw.rank.beside import Company
    from busbw.rank.rank0 import Lead

# NVML's reasons are bits of one number; a maximum over ranks needs them apart.
_THROTTLE_BITS: Final = 16
_NO_CLOCK: Final = 2**31  # beyond any clock in MHz

# A row comes when its window ends: what all passes of a window take together, and how many cases are kept in
# memory for it.
WINDOW_S: Final = 8.0
MOST_CASES: Final = 512

Done = tuple[CaseResult, Kept]
Verdict = tuple[Verified | None, tuple[str, ...]]  # and the case's conditions


@dataclass(frozen=True)
class Task:
    """What the ranks have to do, and with what, once they are connected. ``observer`` is rank 0's and None
    elsewhere.
    """

    plan: Plan
    backend: Backend
    given: Conditions
    deadline: Deadline
    observer: Lead | None


@dataclass(frozen=True)
class Looked:
    """What is known of a case while it is measured."""

    case: Case
    verdict: Verdict
    given: Conditions
    taken: Taken


@dataclass(frozen=True)
class _Open:
    """A case of the window that has several passes, and what its visits have shown. ``visit_s`` is what the
    first took on the slowest rank without its check, ``clock`` the worst that the common clock was found to
    be after one of them, ``device`` the state of the ranks' devices after the last.
    """

    case: Case
    limits: Limits
    given: Conditions
    verdict: Verdict
    choice: Choice | None
    samples: Samples
    visit_s: float = 0.0
    clock: Recheck | None = None
    device: DeviceState | None = None

    @property
    def left(self) -> int:
        """How many passes are left."""
        return self.samples.passes - len(self.samples.stops)

    @property
    def left_s(self) -> float:
        """What the passes that are left take, as all ranks expect it."""
        parts = (self.samples.taken, self.samples.singles)
        taken_ns = sum(float(part.across.worst.sum()) for part in parts if part is not None)
        return self.left * max(taken_ns / len(self.samples.stops) / 1e9, self.visit_s)


Entry = _Open | Done


def grouping(plan: Plan, world: World) -> Grouping | None:
    """Where this rank is in the groups of the plan; None where there are none."""
    if not plan.groups:
        return None
    place = plan.group_of(world.rank, world.size)
    return Grouping(plan.groups, None) if place is None else Grouping(plan.groups, place.group, place.rank)


class Session:
    """The cases of a run, within the sweep's budget. ``saves`` is given what failed checks have left, and
    ``looked`` what is known after each look.
    """

    def __init__(
        self, task: Task, saves: Saves | None = None, looked: Callable[[Looked], None] | None = None
    ) -> None:
        self._plan, self._backend, self._given = plan, backend, given = task.plan, task.backend, task.given
        self._deadline, self._observer, self._looked = task.deadline, task.observer, looked
        self._keeper = WrongKeeper(given.world, saves or task.observer)
        self._open: list[_Open] = []  # of the window, in order
        self._due_s = 0.0  # what the window takes in all
        self._start_s = time.monotonic()
        self._done = 0
        self._races = any(case.arm for case in plan.cases)
        # Why cases do not apply; every rank skips what any of them cannot do.
        own = [case.reason or backend.inapplicable(case) for case in plan.cases]
        found = np.array([bool(reason) for reason in own], np.int64)
        anywhere = given.world.max(found) if own else found
        self._reasons = [
            reason or "another rank's device or library cannot do it" if skipped else ""
            for reason, skipped in zip(own, anywhere, strict=True)
        ]
        self._neighbours: tuple[Company, ...] = ()
        if plan.beside:  # on every rank or on none
            self._neighbours = agreed(given.world, lambda: neighbours(plan, backend, given.world))
        self._operations = [each for each in self._neighbours if isinstance(each, OperationBeside)]
        for each in self._operations:
            each.connect()

    def results(self) -> Iterator[Done]:
        """Check and measure all cases; each result once it is final, in the plan's order. Collective."""
        window: list[Entry] = []
        began_s = time.monotonic()
        for step in self._plan.steps:
            visited = self._first_visit(step)
            window += visited
            self._open += [entry for entry in visited if isinstance(entry, _Open)]
            if self._open:
                self._show(visited)
                if self._goes_on(step, window):
                    continue
            yield from self._completed(window, began_s)
            window, began_s = [], time.monotonic()
        yield from self._completed(window, began_s)
        for each in self._operations:
            each.close()

    def _goes_on(self, step: tuple[Case, ...], window: list[Entry]) -> bool:
        """Whether the window has room for the next step; arms of one race are in one window, and an even case
        with the uneven one.
        """
        if self._due_s < WINDOW_S and len(window) < MOST_CASES:
            return True
        following = self._plan.cases[step[-1].index + 1 :][:1]
        return any(case.even or (case.arm and race_of(case) == race_of(step[-1])) for case in following)

    def _first_visit(self, cases: tuple[Case, ...]) -> list[Entry]:
        """Check and measure what runs at once: one case, or one of every stream."""
        limits = self._share_of_budget(len(cases))
        self._done += len(cases)
        if any(self._reasons[case.index] for case in cases):
            return [(self._not_applicable(case, cases), NOTHING_KEPT) for case in cases]
        if limits is None:
            budget_s = self._plan.limits.budget_seconds
            spent = f"the budget of {budget_s:g} s ran out first: give a longer --budget"
            return [(CaseResult(case.index, Status.NOT_RUN, error=spent), NOTHING_KEPT) for case in cases]
        with self._deadline.for_case(cases[0]):
            if self._plan.streams:
                return [*self._checked_and_measured_at_once(cases, limits)]
            return [self._checked_and_measured(cases[0], limits)]

    def _completed(self, window: list[Entry], began_s: float) -> Iterator[Done]:
        """The results of a window after the passes that are left, which begin so far apart that all of them
        span ``span_s`` at least. Every rank waits by its own clock, and then for the others.
        """
        opened = {place: entry for place, entry in enumerate(window) if isinstance(entry, _Open)}
        left = [each.left for each in opened.values()]
        rounds = max(left, default=0)
        gap_s = self._given.span_s / max(1, rounds)
        for number in range(rounds):
            time.sleep(max(0.0, began_s + gap_s - time.monotonic()))
            began_s = time.monotonic()
            if self._races:  # arms that are out of their race end with the passes that they have
                for place in losers(_sampled({place: each for place, each in opened.items() if each.left})):
                    samples = opened[place].samples
                    ended = replace(samples, passes=len(samples.stops))
                    opened[place] = replace(opened[place], samples=ended)
            due = [
                place
                for nth, (place, each) in enumerate(opened.items())
                if each.left and is_due(number + nth, left[nth], rounds)
            ]
            if self._races:
                due = in_random_order(due, {place: opened[place].case for place in due}, number)
            for place in due:
                with self._deadline.for_case(opened[place].case):
                    if place == due[0]:
                        self._given.world.barrier()
                    opened[place] = self._measured_again(opened[place])
        self._open, self._due_s = [], 0.0
        # The arms of a race are held against each other alone, pass by pass.
        reach = {} if self._races else reach_of(_sampled(opened), self._plan.limits)
        for place, entry in enumerate(window):
            if not isinstance(entry, _Open):
                yield entry
                continue
            with self._deadline.for_case(entry.case):
                done = self._result(opened[place], reach.get(place, OWN))
            yield done

    def _show(self, entries: Sequence[Entry]) -> None:
        """What the first pass has shown, to rank 0's observer: a run that is killed keeps it."""
        if self._observer is None:
            return
        for entry in entries:
            if isinstance(entry, _Open):
                result = self._summary(entry)
            else:
                result = entry[0]
            self._observer.passed(result)

    def _summary(self, opened: _Open, reach: tuple[float, float] = OWN) -> CaseResult:
        verified, conditions = opened.verdict
        return summarize(
            opened.case, opened.samples, verified, opened.given,
            show=self._plan.show, conditions=conditions, reach=reach,
            device=opened.device, clock=opened.clock,
        )  # fmt: skip

    def bursts(self) -> Iterator[Burst]:
        """What links carry, behind everything that is timed; on rank 0. Collective."""
        from busbw.rank.burst import burst, burst_cases, reader

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
        """Where one stream of a step cannot run, the others would not have it beside them."""
        refused = next(other for other in cases if self._reasons[other.index])
        why = self._reasons[case.index] or (
            f"stream {refused.stream}, which runs beside it, does not apply: {self._reasons[refused.index]}"
        )
        return CaseResult(case.index, Status.NOT_APPLICABLE, error=why)

    def _checked_and_measured_at_once(self, cases: tuple[Case, ...], limits: Limits) -> list[Done]:
        from busbw.rank.backends.streams import StreamsBackend
        from busbw.rank.streams import first_calls_ns, measure_together

        plan, backend = self._plan, self._backend
        assert isinstance(backend, StreamsBackend), "made for a plan with streams"
        givens = [self._given_in(case) for case in cases]
        progress.measuring(" + ".join(map(_named, cases)), max(case.size_bytes for case in cases))
        step = backend.prepare_step(cases)
        try:
            first_ns = first_calls_ns(step, self._given, plan.streams)
            both = list(zip(cases, step.parts, strict=True))
            verdicts = [self._verdict(case, part, step.run) for case, part in both]
            choices = [self._choice(case, part) for case, part in both]
            for part, (verdict, _) in zip(step.parts, verdicts, strict=True):
                _guard(part, verdict)
            if limits.calls == 0:
                return list(map(_checked_only, cases, verdicts))
            found = measure_together(step, givens, plan.streams, limits, first_ns)
            device = backend.device_state()
            done = []
            for (case, part), given, before, choice, samples in zip(
                both, givens, verdicts, choices, found, strict=True
            ):
                after, state = self._verdict_after(case, part, before, device, step.run)
                done.append(self._result(_Open(case, limits, given, after, choice, samples, device=state)))
            return done
        finally:
            step.close()

    def _checked_and_measured(self, case: Case, limits: Limits) -> Entry:
        began_s = time.monotonic()
        progress.measuring(_named(case), case.size_bytes)
        prepared, given = self._backend.prepare(case), self._given_in(case)
        try:
            # Before the check, or the case would not be cold any more; not where all calls are counted.
            is_exact = limits.calls == 0 or limits.outer_iters > 0
            first_ns = 0.0 if is_exact else first_call(prepared, given.world)
            verdict = self._verdict(case, prepared)
            choice = self._choice(case, prepared)
            if limits.calls == 0:
                return _checked_only(case, verdict)
            _guard(prepared, verdict[0])
            progress.phase(Phase.WARMUP, progress.expected_seconds(case.size_bytes))
            measured_s = time.monotonic()
            heard, looked = given, self._looked
            if looked is not None:
                heard = replace(given, on_look=lambda taken: looked(Looked(case, verdict, given, taken)))
            samples = self._measured(case, prepared, heard, limits)
            progress.timed(case.size_bytes, samples.call_ns / 1e9)
            now_s = time.monotonic()
            own = np.array([now_s - began_s, now_s - measured_s, first_ns])
            all_s, visit_s, first_ns = map(float, given.world.max(own))
            samples = replace(samples, first_call_ns=first_ns, ended_s=time.time())
            opened = _Open(case, limits, given, verdict, choice, samples, visit_s)
            self._due_s += all_s + opened.left_s
            opened = self._after_pass(opened, prepared)
            return opened if samples.passes > 1 else self._result(opened)
        finally:
            prepared.close()

    def _measured(self, case: Case, prepared: PreparedCase, given: Conditions, limits: Limits) -> Samples:
        """The first visit of a case. Collective."""
        if limits.outer_iters:
            return measure_repeated(prepared, given, limits)
        if not self._neighbours:
            is_window = self._plan.soak is not None and limits.calls is None
            return (measure_window if is_window else measure)(prepared, given, limits)
        if self._plan.runs_at_once:
            prepared = AtOnce(prepared, self._backend)
            # As of streams: a sample takes two events.
            given = replace(given, max_samples_per_look=given.max_samples_per_look // 2)
        with ExitStack() as ready:
            for each in self._operations:
                ready.enter_context(each.ready(case))
            asked, clock = self._plan.beside, self._backend.device_state
            return measure_beside(
                prepared, given, limits, asked=asked, neighbours=self._neighbours, clock=clock
            )

    def _measured_again(self, opened: _Open) -> _Open:
        if self._races and self._observer is not None:
            self._observer.visits(opened.case)
        progress.measuring(_named(opened.case), opened.case.size_bytes)
        prepared, given = self._backend.prepare(opened.case), replace(opened.given, clock=self._given.clock)
        try:
            if opened.left == 1:  # whose check follows
                _guard(prepared, opened.verdict[0])
            samples = measure_again(opened.samples, prepared, given, opened.limits)
            return self._after_pass(replace(opened, given=given, samples=samples), prepared)
        finally:
            prepared.close()

    def _after_pass(self, opened: _Open, prepared: PreparedCase) -> _Open:
        """With what is found after a pass, and after the last one. Collective."""
        complete, clock, world = opened.samples.complete, self._given.clock, self._given.world
        device = self._backend.device_state() if complete else None  # at once: clocks fall when the work ends
        found: Recheck | None = None
        if clock is not None and isinstance(world, MpiWorld):
            found = recheck(world, clock)  # at once: it is what the readings are worth
            both = (found,) if opened.clock is None else (opened.clock, found)
            worse = max(both, key=lambda each: (each.excess_ns, each.error_ns))
            opened = replace(opened, clock=worse)
        if complete:
            verdict, state = self._verdict_after(opened.case, prepared, opened.verdict, device)
            opened = replace(opened, verdict=verdict, device=state)
        if found is not None and clock is not None and isinstance(world, MpiWorld):
            # For the next case: a new one where the finding asks for it, else with the error that was found
            # last. A larger one before says nothing about the readings to come.
            kept = synchronise(world) if found.renew else replace(clock, error_ns=found.error_ns)
            self._given = replace(self._given, clock=kept)
        return opened

    def _result(self, opened: _Open, reach: tuple[float, float] = OWN) -> Done:
        """What is told and what is kept of a measured case. Collective."""
        plan, case, given, samples = self._plan, opened.case, opened.given, opened.samples
        if opened.limits.case_seconds < plan.limits.case_seconds:
            stops = (StopReason.BUDGET if stop is StopReason.CASE_TIME else stop for stop in samples.stops)
            samples = replace(samples, stops=tuple(stops))
        result = self._summary(replace(opened, samples=samples), reach)
        if opened.choice is not None:
            result = replace(result, algorithm=opened.choice.words, choice=opened.choice)
        if {"in", "out"} & set(plan.show):  # what a rank has in its buffers
            own = plan.rank_bytes(case, given.world.rank, given.world.size)
            most = given.world.max(np.array(own, np.int64)).tolist()
            result = replace(result, input_bytes=most[0], output_bytes=most[1])
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

    def _verdict(self, case: Case, prepared: PreparedCase, issue: Issue = None) -> Verdict:
        given, world = self._given, self._given.world
        of_run = {
            "contended": given.contended,
            "shared-gpu": given.shares_gpu,
            "profiled": given.profiled,
            "delayed": given.timing.arrival != "none",
        }
        holding = (name for name, holds in of_run.items() if holds)
        conditions = (*holding, *self._backend.conditions(case))
        plan = self._plan.of_case(case)
        if plan.checks == 0 or not case.row.sized:
            return None, conditions
        if not all(checkable(case, ranks, plan.data) for ranks in {*map(len, plan.groups)} or {world.size}):
            return None, (*conditions, "unchecked")
        progress.phase(Phase.CHECK, progress.expected_seconds(case.size_bytes))
        return self._checks(case, prepared, issue).before(plan.checks), conditions

    def _checks(self, case: Case, prepared: PreparedCase, issue: Issue) -> Checks:
        plan = self._plan.of_case(case)
        keeper = self._keeper if plan.save_wrong else None
        return Checks(case, prepared, self._given.world, plan.seed, plan.groups, keeper, issue)

    def _verdict_after(
        self,
        case: Case,
        prepared: PreparedCase,
        before: Verdict,
        device: DeviceState | None,
        issue: Issue = None,
    ) -> tuple[Verdict, DeviceState | None]:
        """With what is found after the timed calls, where the case was checked; and the worst state of any
        rank's device. One message has both. Collective.
        """
        verified, conditions = before
        progress.phase(Phase.CHECK, progress.expected_seconds(case.size_bytes))
        # As numbers whose maximum over ranks is the worst state of any of them.
        bits = [device.throttle_bits >> bit & 1 if device else 0 for bit in range(_THROTTLE_BITS)]
        state = np.array([-device.clock_mhz if device else -_NO_CLOCK, *bits], np.int64)
        if verified is None:
            return before, _worst_state(self._given.world.max(state))
        verified, state = self._checks(case, prepared, issue).after(verified, state)
        return (verified, conditions), _worst_state(state)

    def _choice(self, case: Case, prepared: object) -> Choice | None:
        """How the library does the case, where that was asked for; known on rank 0. Collective."""
        if not self._plan.watches or not case.row.sized:
            return None
        own = self._backend.choice(case, prepared)
        told = self._given.world.gather(json.dumps(own and asdict(own)).encode())
        choices = [found for text in told or () if (found := json.loads(text))]
        return agreed_choice([from_plain(Choice, each) for each in choices])

    def _share_of_budget(self, cases: int) -> Limits | None:
        """The run's limits, cut to the share of so many cases of the budget; None where nothing is left."""
        limits = self._plan.limits
        if limits.budget_seconds is None:
            return limits
        spent_s = float(self._given.world.max(np.array([time.monotonic() - self._start_s]))[0])
        spent_s += sum(opened.left_s for opened in self._open)
        share_s = (limits.budget_seconds - spent_s) * cases / (len(self._plan.cases) - self._done)
        return replace(limits, case_seconds=min(limits.case_seconds, share_s)) if share_s > 0 else None


def _sampled(opened: Mapping[int, _Open]) -> dict[int, tuple[Case, Samples]]:
    return {place: (each.case, each.samples) for place, each in opened.items()}


def _named(case: Case) -> str:
    """As it is called where a run hangs."""
    size = f" {format_size(case.size_bytes)} {case.dtype}" if case.row.sized else ""
    return f"{case.collective}{size} {case.arm}".rstrip()


def _guard(prepared: PreparedCase, verified: Verified | None) -> None:
    """Before a checked case is timed."""
    if verified is not None:
        prepared.guard()


def _checked_only(case: Case, verdict: Verdict) -> Done:
    found, conditions = verdict
    result = CaseResult(case.index, Status.GOOD, stop=StopReason.CHECK_ONLY, conditions=conditions)
    if found is not None:
        status = Status.WRONG if found.wrong else Status.GOOD
        result = replace(result, status=status, wrong=found.wrong, wrong_at=found.wrong_at)
    return result, NOTHING_KEPT


def _worst_state(found: Int64Array) -> DeviceState | None:
    """The lowest clock of any rank's device, and every reason that any of them has."""
    if -found[0] == _NO_CLOCK:
        return None
    raised = sum(int(bit) << place for place, bit in enumerate(found[1:]))
    return DeviceState(clock_mhz=int(-found[0]), throttle_bits=raised)
