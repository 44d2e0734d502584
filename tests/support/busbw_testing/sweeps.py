"""Whole plans on simulated ranks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from busbw.model.plan import Limits, Plan
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import Size
from busbw.plan.make import make_plan
from busbw.rank import main
from busbw_testing.ranks import on_ranks


class Notes:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.world: Any = None
        self.method: Any = None
        self.results: list[Any] = []
        self.passes: list[Any] = []
        self.visited: list[int] = []
        self.kept: list[Any] = []
        self.memory_bytes: dict[str, int] | None = None
        self.findings: list[Any] = []
        self.folder = Path()

    def found(self, findings: Any) -> None:
        self.findings += findings

    def started(self, world: Any, method: Any) -> None:
        self.world, self.method = world, method

    def passed(self, result: Any) -> None:
        self.passes.append(result)

    def visits(self, case: Any) -> None:
        self.visited.append(case.index)

    def finished(self, result: Any, kept: Any) -> None:
        self.results.append(result)
        self.kept.append(kept)

    def used(self, memory_bytes: dict[str, int]) -> None:
        self.memory_bytes = memory_bytes

    def end(self, status: Any) -> None: ...


def plan_of(*operations: str, ranks: int = 2, checks: int = 0, limits: Limits | None = None) -> Plan:
    plan = make_plan(operations, RunSettings(minbytes=Size("1K"), maxbytes=Size("2K"), seed=3), "null", ranks)
    return replace(plan, checks=checks, limits=limits or Limits())


def run_on(backends: list[Any], plan: Plan) -> tuple[list[Any], Notes]:
    """What a run of these backends comes to, a rank each, and what rank 0's observer heard."""
    notes = Notes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(main, "create", lambda plan, world: backends[world.rank])
        outcomes = on_ranks(
            len(backends), lambda world: main.run(world, plan, notes if world.rank == 0 else None)
        )
    return outcomes, notes
