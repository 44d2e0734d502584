"""Preflight on the ranks: before libraries load and buffers are taken, and again once NCCL is connected."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from busbw.errors import ExitCode
from busbw.model.finding import Finding
from busbw.preflight.exchange import Verdict, agree, compare_ranks
from busbw.worker.agree import RefusedTogether

if TYPE_CHECKING:
    from busbw.backends.base import Backend
    from busbw.model.plan import Plan
    from busbw.preflight.gathered import Gathered
    from busbw.worker.nccl_ear import NcclEar
    from busbw.world.base import World


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

    def compare(self) -> None:
        """Are the ranks alike, and is what they need there?"""
        if self._level != "off":
            verdict, self._gathered = compare_ranks(self._world, self._plan)
            self._act_on(verdict)

    def listen(self) -> None:
        """To what NCCL says while it connects."""
        if self._level != "off" and self._plan.backend == "nccl":
            from busbw.worker.nccl_ear import NcclEar

            self._ear = NcclEar(os.environ)

    def compare_use(self) -> None:
        """Does NCCL use what it was asked to use?"""
        if self._ear is None:
            return
        from busbw.preflight.nccl_log import encode_use, read_use

        # Ranks of a group's communicator have other numbers.
        hosts = () if self._plan.groups else tuple(member.host for member in self._world.members)
        own = encode_use(read_use(self._ear.lines(), hosts, self._ear.told))
        self._act_on(agree(self._world, own, self._judged_use))

    def go_deep(self, backend: Backend) -> None:
        """Copy, and run the tools that are there, where that was asked for."""
        if self._level == "deep":
            from busbw.worker.deep import examine

            self._act_on(agree(self._world, *examine(self._world, self._plan, backend)))

    def _judged_use(self, parts: list[bytes]) -> tuple[Finding, ...]:
        from busbw.preflight.asked import judge_use
        from busbw.preflight.nccl_log import decode_use
        from busbw.preflight.used import Used

        assert self._gathered is not None, "compare comes first"
        return judge_use(Used(self._gathered, tuple(decode_use(part) for part in parts)))

    def _act_on(self, verdict: Verdict) -> None:
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
