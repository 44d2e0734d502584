"""A hunt on the ranks: one launch, round after round.

A round of pairs is one permute over the run's communicator: every pair exchanges at once, and no round needs
a communicator of its own; rounds of groups (``hunt.groups``) have one for each. Rank 0 chooses the
round and sends it to all; all measure; rank 0 gets the times.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from busbw.errors import ExitCode
from busbw.hunt import compare_groups
from busbw.hunt.compare_groups import compare
from busbw.hunt.decide import next_round
from busbw.hunt.field import Field, fields, of_ranks, on_switches
from busbw.hunt.findings import CHECK, findings, left_out, to_fields
from busbw.hunt.rounds import halving, rail_rounds, turn, turns
from busbw.hunt.verdict import conclude, exit_code
from busbw.machine.counters import resent_by_socket, resent_since
from busbw.machine.host import queued_ns, stalled_ns
from busbw.machine.visible import VISIBLE, gpu_named, words_of_gpus
from busbw.model.finding import Finding, Severity, worst_first
from busbw.model.hunt import (
    BANDWIDTH,
    BOTH_WAYS,
    LATENCY,
    QUICKEST,
    RESENT,
    Hunt,
    Lanes,
    PairTest,
    Round,
    RoundResult,
    Stage,
)
from busbw.model.record import HostInfo
from busbw.rank.backends.base import Backend, float_case
from busbw.rank.hunt import groups
from busbw.rank.hunt.nic import by_host, carried, named
from busbw.rank.hunt.nic import judge as judge_nic
from busbw.rank.hunt.round_time import SMALL_PAUSE_NS, Messages, Pace
from busbw.rank.world.base import World, of_rank_0

if TYPE_CHECKING:
    from busbw.rank.cases import Task
    from busbw.rank.process import Deadline
    from busbw.rank.rank0 import Lead

_PERMUTE: Final = "permute"
_SMALL_LEAD: Final = 10
_LEAST_OWN: Final = 0.1  # of a latency, whatever ranks waited for their cores: they may have waited at once
_NOBODY: Final = Finding(
    Severity.WARNING,
    "nothing was tested: one rank has no partner to test",
    hint="give two or more: --ranks 2",
    check=CHECK,
)
_NO_OTHER: Final = Finding(
    Severity.WARNING,
    "could not decide: there is no other rail or host of as many ranks to compare one with",
    hint="start two ranks or more on each of several hosts; `busbw isolate` tests hosts of one rank",
    check=CHECK,
)


def go_hunting(task: Task, hunt: Hunt, places: Sequence[HostInfo]) -> ExitCode:
    """All rounds in all fields. Collective over the world; ``places`` are rank 0's."""
    world = task.given.world
    tester = _Tester(world, hunt, task.backend, task.deadline)
    hosts = [member.host for member in world.members]
    go = _go_rails if hunt.kind == "rails" else _go_pairs
    code = go(tester, hosts, task.observer, places)
    return ExitCode(int(world.max(np.array([int(code)]))[0]))


def _go_pairs(
    tester: _Tester, hosts: Sequence[str], observer: Lead | None, places: Sequence[HostInfo]
) -> ExitCode:
    """Pairs of hosts, and of ranks. The exit code is rank 0's."""
    world, hunt, backend = tester.world, tester.hunt, tester.backend
    among = {"isolate": fields(hosts), "pairs": fields(hosts)[-1:]}[hunt.kind]
    among = tuple(_with_gpus(field, hosts, backend.name, os.environ) for field in among)
    if observer is not None:
        among = tuple(on_switches(field, observer.switches(places)) for field in among)
    if hunt.nic:
        among = among[-1:]  # within a host nothing goes by a NIC
    before = carried() if hunt.nic else {}
    histories = [_rounds(tester, field, observer) for field in among]
    moved = by_host(world, before) if hunt.nic else None
    if observer is None:
        return ExitCode.OK
    return _tell(hunt, among, histories, observer, places, moved)


def _with_gpus(field: Field, hosts: Sequence[str], backend: str, environ: Mapping[str, str]) -> Field:
    """The field whose ranks on one host are named with their GPUs, where the variable says which these are:
    the numbers of ranks do not.
    """
    is_told = backend == "nccl" and field.kind == "rank" and len(set(hosts)) == 1 and VISIBLE in environ
    words = words_of_gpus(environ, len(hosts)) if is_told else ()
    if not words or len(words) < len(hosts):
        return field
    names = (f"rank {rank} ({gpu_named(word)}) on {hosts[rank]}" for rank, word in enumerate(words))
    return replace(field, names=tuple(names))


def _go_rails(
    tester: _Tester, hosts: Sequence[str], observer: Lead | None, places: Sequence[HostInfo]
) -> ExitCode:
    """A collective in each rail and in each host, by which they are compared; then the steps of their rings,
    which are shown. Collective.
    """
    backend, hunt = tester.backend, tester.hunt
    among = groups.stages(hosts)
    histories: list[tuple[RoundResult, ...]] = []
    for stage, field in among:
        tell = None if observer is None else partial(observer.tested, field)
        histories.append(groups.run(tester, stage, field, sum(map(len, histories)), tell))
    backend.regroup(tester.world, ())
    steps = _with_gpus(of_ranks(hosts), hosts, backend.name, os.environ)
    _rounds(tester, steps, observer, tuple(each for own in histories for each in own))
    if observer is None:
        return ExitCode.OK
    told, found = list[dict[str, Any]](), list[Finding]()
    compared = [compare(hunt.rules, history) for history in histories]
    for (_, field), comparison, history in zip(among, compared, histories, strict=True):
        told.append(compare_groups.to_fields(field, comparison, history, places))
        found += compare_groups.findings(hunt.rules, hunt.size_bytes, field, comparison, history)
    code = exit_code(compare_groups.decisions(compared))
    if not any(each.groups for each in compared):
        found.append(_NO_OTHER if among else _NOBODY)
    observer.judged({"kind": hunt.kind, "fields": told}, worst_first(found), code)
    return code


def _tell(
    hunt: Hunt,
    among: Sequence[Field],
    histories: Sequence[tuple[RoundResult, ...]],
    observer: Lead,
    places: Sequence[HostInfo],
    moved: Mapping[str, Mapping[str, int]] | None,
) -> ExitCode:
    """Judge what was measured. A matrix of pairs is shown and not judged; of one part there is none.
    ``moved`` is what NICs carried, of a hunt by one of them.
    """
    if hunt.kind != "isolate":
        code = ExitCode.OK if any(histories) else ExitCode.UNDECIDED
        said = tuple(each for field in among for each in left_out(field)) if any(histories) else (_NOBODY,)
        observer.judged({"kind": hunt.kind}, said, code)
        return code
    told, found, decisions = list[dict[str, Any]](), list[Finding](), []
    for field, history in zip(among, histories, strict=True):
        verdict = conclude(hunt.rules, field.groups, history, field.leaves)
        seconds = round(sum(each.seconds for each in history), 3)
        decisions.append(verdict.decision)
        told.append(to_fields(field, verdict, places, seconds))
        found += findings(field, verdict)
    code = exit_code(decisions)
    if moved is not None:
        found, code = _by_nic(hunt, told[-1], found, moved, code)
    observer.judged({"kind": hunt.kind, "fields": told}, worst_first(found), code)
    return code


def _by_nic(
    hunt: Hunt,
    told: dict[str, Any],
    found: list[Finding],
    moved: Mapping[str, Mapping[str, int]],
    code: ExitCode,
) -> tuple[list[Finding], ExitCode]:
    """The findings of a hunt by one NIC, and its exit code. Where its bytes went another way, nothing was
    found of that NIC: what the verdict says of hosts is taken out of ``told``.
    """
    of_nic, is_by_it = judge_nic(hunt, told["rounds"], moved)
    if is_by_it or of_nic is None:
        said = [replace(each, claim=named(each, hunt.nic)) for each in found]
        return [*said, *([] if of_nic is None else [of_nic])], code
    told |= {"decision": "undecided", "reason": of_nic.claim, "suspects": [], "open": [], "ranking": []}
    told |= {"exclude": {}, "near": {}, "longer": {}}
    return [of_nic], ExitCode.UNDECIDED


def _rounds(
    tester: _Tester, field: Field, observer: Lead | None, history: tuple[RoundResult, ...] = ()
) -> tuple[RoundResult, ...]:
    """Round after round until rank 0 says that it is enough; all of them on rank 0, none elsewhere."""
    while (chosen := _agreed(tester, field, history)) is not None:
        found = tester.run(field, chosen)
        if found is not None:
            history = (*history, found)
            if observer is not None:
                observer.tested(field, found)
    return history


def _agreed(tester: _Tester, field: Field, history: tuple[RoundResult, ...]) -> Round | None:
    """The next round, as rank 0 chooses it. Collective."""
    chosen = _next(tester.hunt, field, history) if tester.world.rank == 0 else None
    fields_of_round = of_rank_0(tester.world, chosen and asdict(chosen))
    if fields_of_round is None:
        return None
    pairs = tuple((one, other) for one, other in fields_of_round["pairs"])
    return Round(fields_of_round["number"], Stage(fields_of_round["stage"]), pairs)


def _next(hunt: Hunt, field: Field, history: tuple[RoundResult, ...]) -> Round | None:
    if hunt.kind == "isolate":
        return next_round(hunt.rules, field.groups, history, field.leaves)
    parts, number = len(field.names), len(history)
    if hunt.kind == "rails":
        left = rail_rounds(field.groups)[sum(bool(each.tests) for each in history) :]
        return Round(number, *left[0]) if left else None
    if hunt.halves:
        cuts = halving(parts)
        return Round(number, Stage.HALVES, cuts[number]) if number < len(cuts) else None
    return Round(number, Stage.MATRIX, turn(parts, number)) if number < turns(parts) else None


class _Tester(Messages):
    """Runs rounds. The pace is found in the first one over the same links and kept, so that tests of a field
    are alike: what a sample within a host takes says nothing of one between hosts.
    """

    def __init__(self, world: World, hunt: Hunt, backend: Backend, deadline: Deadline) -> None:
        super().__init__(world, hunt, backend, deadline)
        self._links = ("", False)  # what the pace is of: the kind of the parts, whether a ring within hosts
        self._pace = Pace(0, 0)

    def run(self, field: Field, chosen: Round) -> RoundResult | None:
        """Test the pairs of a round; the result on rank 0, None elsewhere. Collective."""
        part = field.part_of.get(self.world.rank)
        partner = next((set(pair) - {part} for pair in chosen.pairs if part in pair), None)
        doing = f"round {chosen.number + 1}" + (f" with {field.names[partner.pop()]}" if partner else "")
        found = self.everyone(doing, lambda: self._test(field, chosen))
        if found is None:
            return None
        everyone, seconds = found
        tests = tuple(_pair_test(field, pair, everyone) for pair in chosen.pairs)
        stalled = max((each[LATENCY][0][2] for each in everyone if LATENCY in each), default=0.0)
        return RoundResult(chosen, tests, seconds, round(stalled, 3))

    def _test(self, field: Field, chosen: Round) -> dict[str, tuple[list[float], list[float]]]:
        """Measure all metrics of a round's pairs, there and back; of a step of a ring one, one way."""
        there = field.lanes(chosen.pairs)
        back = tuple((target, source) for source, target in there)
        links = (field.kind, chosen.stage is Stage.NODES)
        if links != self._links:
            self._links = links
            self._pace = self.pace(float_case(_PERMUTE, self.hunt.size_bytes), there, "pair")
        if chosen.stage in (Stage.RAILS, Stage.NODES):
            return {BANDWIDTH: (self._wide(there), [])}
        own: dict[str, tuple[list[float], list[float]]] = {}
        before = resent_by_socket()
        for metric in self.hunt.rules.metrics:
            if metric == RESENT:  # the last of them: of all that was sent in this round
                resent = resent_since(before, resent_by_socket())
                own.update({} if resent is None else {metric: ([float(resent)],) * 2})
            elif metric == BANDWIDTH:
                own[metric] = (self._wide(there), self._wide(back))
            elif metric == LATENCY:
                mean, blocks = self._small((*there, *back))
                own[metric] = (mean, mean)
                own[QUICKEST] = (blocks, blocks)
            elif metric == BOTH_WAYS:
                own[metric] = (self._wide((*there, *back)),) * 2
        return own

    def _wide(self, pairs: tuple[tuple[int, int], ...]) -> list[float]:
        """Nanoseconds of a large message on this rank, in each sample."""
        with self.prepared(
            float_case(_PERMUTE, self.hunt.size_bytes), pairs, self._pace.pause_ns
        ) as prepared:
            return self.samples(prepared, self._pace.calls)

    def _small(self, pairs: tuple[tuple[int, int], ...]) -> tuple[list[float], list[float]]:
        """Nanoseconds of a small exchange on this rank, the mean of many, late ones included; how many of
        them the rank had no core; and the share of the time in which any process of the host had none. Then
        the nanoseconds of an exchange in each block. Blocks follow one another without a barrier: a rank that
        is late at the end of one makes the next longer for its partner, and the longer one counts.
        """
        case = float_case(_PERMUTE, self.hunt.small_bytes)
        with self.prepared(case, pairs, SMALL_PAUSE_NS if self.sleeps else 0) as prepared:
            prepared.run(0, _SMALL_LEAD)
            start_ns, stalled, before_ns = time.monotonic_ns(), stalled_ns(), queued_ns()
            self.world.barrier()
            took = prepared.time(0, self.hunt.small_blocks, self.hunt.small_calls).elapsed_ns
            blocks = [float(each) / self.hunt.small_calls for each in took]
            calls = self.hunt.small_blocks * self.hunt.small_calls
            # Beside it, what this rank waited for a core: another program's doing, and no fault of the link.
            # A matrix that is shown as it is has the mean of what the messages took, and nothing taken off.
            is_judged = self.hunt.kind == "isolate" and self.backend.name == "mpi"
            queued = queued_ns() - before_ns if is_judged else 0
            share = (stalled_ns() - stalled) / (time.monotonic_ns() - start_ns)
            return [float(took.sum()) / calls, queued / calls, min(1.0, share)], blocks


def _pair_test(
    field: Field, pair: tuple[int, int], everyone: Sequence[dict[str, tuple[list[float], list[float]]]]
) -> PairTest:
    """A test from what both ends of each lane measured. A message has ended when it has for both; the shorter
    a sample, the less else disturbed it. It is the second shortest that counts: one can be shorter than the
    link allows, when its receiver left the barrier late and found part of the message waiting. A step of a
    ring has one direction. What ranks sent again is that of all ranks of a part together. What one rank could
    not observe is left out.
    """

    def took(metric: str, way: int, one: int, other: int) -> float:
        ends = (everyone[one][metric][way], everyone[other][metric][way])
        if metric == LATENCY:
            (mine, queued, _), (theirs, queued_there, _) = ends
            both = max(mine, theirs)
            return max(both - queued - queued_there, _LEAST_OWN * both)
        return sorted(map(max, zip(*ends, strict=True)))[:2][-1]

    def each(metric: str, way: int) -> Lanes:
        return tuple(took(metric, way, *lane) for lane in lanes if everyone[lane[0]][metric][way])

    def sent_again() -> Lanes:
        return (
            1.0 + max(sum(everyone[rank][RESENT][0][0] for rank in end) for end in zip(*lanes, strict=True)),
        )

    lanes = field.lanes([pair])
    metrics = [metric for metric in everyone[0] if all(metric in own for own in everyone)]
    times_ns = {metric: (each(metric, 0), each(metric, 1)) for metric in metrics if metric != RESENT}
    return PairTest(*pair, times_ns | ({RESENT: (sent_again(),) * 2} if RESENT in metrics else {}))
