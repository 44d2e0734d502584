"""The collective part of preflight: every rank says its facts, rank 0 judges, all hear whether to go on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

from busbw.errors import ExitCode
from busbw.machine.preflight.facts import decode, encode
from busbw.model.finding import Finding, errors
from busbw.model.network import FACT
from busbw.rank.describe import speaks_for_host
from busbw.rank.facts import read_rank
from busbw.rank.world.base import RefusedTogether

if TYPE_CHECKING:
    from busbw.machine.preflight.facts import Gathered
    from busbw.model.plan import Plan
    from busbw.rank.backends.base import Backend
    from busbw.rank.nccl_output import NcclEar
    from busbw.rank.world.base import World


@dataclass(frozen=True)
class Refusal:
    """Why the run must not go on, the same on all ranks."""

    message: str
    hint: str
    rank: int | None
    host: str


@dataclass(frozen=True)
class Judged:
    """``findings`` on rank 0 only; ``refusal`` on all ranks, None where nothing speaks against the run."""

    findings: tuple[Finding, ...] = ()
    refusal: Refusal | None = None


def compare_ranks(world: World, plan: Plan) -> tuple[Judged, Gathered | None]:
    """Read this rank's facts, and compare those of all; rank 0 keeps them. Collective over the world."""
    kept: list[Gathered] = []

    def judge(parts: list[bytes]) -> tuple[Finding, ...]:
        # Rank 0 alone needs the rules.
        from busbw.machine.preflight import rules
        from busbw.machine.preflight.facts import Gathered

        kept.append(Gathered(tuple(decode(part) for part in parts), plan.backend, plan.preflight))
        return rules.judge(kept[0])

    verdict = agree(world, encode(read_rank(world, plan)), judge)
    return verdict, kept[0] if kept else None


def agree(world: World, own: bytes, judge: Callable[[list[bytes]], tuple[Finding, ...]]) -> Judged:
    """Gather every rank's ``own``, judge on rank 0, and send all the result. Collective over the world."""
    gathered = world.gather(own)
    if gathered is None:
        told = json.loads(world.broadcast(None))
        return Judged((), Refusal(**told) if told else None)
    findings = judge(gathered)
    refusal = refusal_of(findings)
    world.broadcast(json.dumps({} if refusal is None else asdict(refusal)).encode())
    return Judged(findings, refusal)


def refusal_of(findings: tuple[Finding, ...]) -> Refusal | None:
    """The first error's words, and how many more there are."""
    bad = errors(findings)
    if not bad:
        return None
    first, others = bad[0], len(bad) - 1
    more = f" (and {others} more error)" if others == 1 else f" (and {others} more errors)" if others else ""
    return Refusal(first.claim + more, first.hint, first.rank, first.host)


class Finder(Protocol):
    """Rank 0's ear for findings."""

    def found(self, findings: tuple[Finding, ...]) -> None:
        """What was noticed, the worst first."""


class CheckFirst:
    """The checks around the making of a backend. Its methods are collective over the world, ``listen``
    excepted, and raise RefusedTogether on all ranks where the run must not go on.
    """

    def __init__(self, world: World, plan: Plan, observer: Finder | None) -> None:
        self._world, self._plan, self._observer = world, plan, observer
        self._level = plan.preflight.level
        self._gathered: Gathered | None = None  # rank 0's
        self._ear: NcclEar | None = None
        self.said: dict[str, Any] = {}  # facts of this rank: what its NCCL said of the network

    def compare(self) -> None:
        """Are the ranks alike, and is what they need there?"""
        if self._level != "off":
            verdict, self._gathered = compare_ranks(self._world, self._plan)
            self._act_on(verdict)

    def listen(self) -> None:
        """To what NCCL says while it connects."""
        if self._level != "off" and self._plan.backend == "nccl":
            from busbw.rank.nccl_output import NcclEar

            self._ear = NcclEar(os.environ)

    def compare_use(self) -> None:
        """Does NCCL use what it was asked to use?"""
        if self._ear is None:
            return
        from busbw.machine.preflight.nccl_log import encode_use, read_use, said_of

        # Ranks of a group's communicator have other numbers.
        hosts = () if self._plan.groups else tuple(member.host for member in self._world.members)
        use = read_use(self._ear.lines(), hosts)
        if speaks_for_host(self._world) and (said := said_of(use)):
            self.said = {FACT: said}
        self._act_on(agree(self._world, encode_use(use), self._judged_use))

    def go_deep(self, backend: Backend) -> None:
        """Copy, and run the tools that are there, where that was asked for."""
        if self._level == "deep":
            from busbw.rank.deep import examine

            self._act_on(agree(self._world, *examine(self._world, self._plan, backend)))

    def _judged_use(self, parts: list[bytes]) -> tuple[Finding, ...]:
        from busbw.machine.preflight.nccl_log import decode_use
        from busbw.machine.preflight.requested_vs_used import Used, judge_use

        assert self._gathered is not None, "compare comes first"
        return judge_use(Used(self._gathered, tuple(decode_use(part) for part in parts)))

    def _act_on(self, verdict: Judged) -> None:
        if self._observer is not None and verdict.findings:
            self._observer.found(verdict.findings)
        if verdict.refusal is not None:
            raise RefusedTogether(
                verdict.refusal.message,
                hint=verdict.refusal.hint,
                exit_code=ExitCode.ENVIRONMENT,
                rank=verdict.refusal.rank,
                host=verdict.refusal.host,
            )
