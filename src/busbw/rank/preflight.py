"""The collective part of preflight: every rank says its facts, rank 0 judges, all hear whether to go on."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from busbw.errors import ExitCode
from busbw.machine.preflight.facts import Gathered, decode, encode
from busbw.model.finding import Finding, errors
from busbw.model.network import FACT
from busbw.model.plain import from_bytes, to_bytes
from busbw.model.plan import Plan
from busbw.rank.facts import read_rank
from busbw.rank.world.base import RefusedTogether, World, agreed, speaks_for_host
from busbw.units import counted

if TYPE_CHECKING:
    from busbw.rank.backends.base import Backend
    from busbw.rank.nccl_output import NcclEar
    from busbw.rank.rank0 import Lead


Judge = Callable[[list[bytes]], tuple[Finding, ...]]


def judged_together(world: World, own: bytes, judge: Judge, observer: Lead | None) -> None:
    """Gather every rank's ``own``; rank 0 judges, and tells the ``observer``. Collective; raises
    RefusedTogether on all ranks where a finding speaks against the run.
    """
    gathered = world.gather(own)

    def step() -> None:
        findings = judge(gathered) if gathered is not None else ()
        if observer is not None and findings:
            observer.found(findings)
        if (refusal := refusal_of(findings)) is not None:
            raise refusal

    agreed(world, step)


def refusal_of(findings: tuple[Finding, ...]) -> RefusedTogether | None:
    """The first error's words, and how many more there are; None without one."""
    bad = errors(findings)
    if not bad:
        return None
    first, others = bad[0], len(bad) - 1
    claim = f"{first.claim} (and {counted(others, 'more error')})" if others else first.claim
    code = ExitCode.ENVIRONMENT
    return RefusedTogether(claim, hint=first.hint, exit_code=code, rank=first.rank, host=first.host)


class CheckFirst:
    """The checks around the making of a backend. Its methods are collective over the world, ``listen``
    excepted, and raise RefusedTogether on all ranks where the run must not go on.
    """

    def __init__(self, world: World, plan: Plan, observer: Lead | None) -> None:
        self._world, self._plan, self._observer = world, plan, observer
        self._level = plan.preflight.level
        self._gathered: Gathered | None = None  # of ``compare``, on rank 0
        self._ear: NcclEar | None = None
        self.said: dict[str, Any] = {}  # facts of this rank: what its NCCL said of the network

    def compare(self) -> None:
        """Are the ranks alike, and is what they need there?"""
        if self._level != "off":
            own = encode(read_rank(self._world, self._plan))
            judged_together(self._world, own, self._judged_ranks, self._observer)

    def listen(self) -> None:
        """To what NCCL says while it connects."""
        if self._level != "off" and self._plan.backend == "nccl":
            from busbw.rank.nccl_output import NcclEar

            self._ear = NcclEar(os.environ)

    def compare_use(self) -> None:
        """Does NCCL use what it was asked to use?"""
        if self._ear is None:
            return
        from busbw.machine.preflight.nccl_log import read_use, said_of

        # Ranks of a group's communicator have other numbers.
        hosts = () if self._plan.groups else tuple(member.host for member in self._world.members)
        use = read_use(self._ear.lines(), hosts)
        if speaks_for_host(self._world) and (said := said_of(use)):
            self.said = {FACT: said}

        def judge(parts: list[bytes]) -> tuple[Finding, ...]:
            from busbw.machine.preflight.nccl_log import NcclUse
            from busbw.machine.preflight.requested_vs_used import Used, judge_use

            assert self._gathered is not None, "compare comes first"
            return judge_use(Used(self._gathered, tuple(from_bytes(NcclUse, part) for part in parts)))

        judged_together(self._world, to_bytes(use), judge, self._observer)

    def go_deep(self, backend: Backend) -> None:
        """Copy, and run the tools that are there, where that was asked for."""
        if self._level == "deep":
            from busbw.rank.deep import examine

            judged_together(self._world, *examine(self._world, self._plan, backend), self._observer)

    def _judged_ranks(self, parts: list[bytes]) -> tuple[Finding, ...]:
        # Rank 0 alone needs the rules.
        from busbw.machine.preflight import rules
        from busbw.machine.preflight.facts import Gathered

        ranks = tuple(decode(part) for part in parts)
        self._gathered = Gathered(ranks, self._plan.backend, self._plan.preflight)
        return rules.judge(self._gathered)
