"""The record of a run: one value that every reader takes, whoever measured it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from busbw.model.plan import Plan
from busbw.model.result import CaseResult, Status

# Raised when a field changes meaning or goes; readers refuse what they do not know.
SCHEMA_VERSION: Final = 1


class RunStatus(StrEnum):
    """How far a run came."""

    RUNNING = "running"  # or killed: nothing was written after this
    COMPLETE = "complete"
    FAILED = "failed"  # a rank or library failed; finished cases are kept
    INTERRUPTED = "interrupted"  # the user or the launcher ended it


@dataclass(frozen=True)
class RankInfo:
    """One rank: where it ran and with what. ``facts`` are the backend's own, as the cost of an event."""

    rank: int
    host: str
    pid: int
    local_rank: int
    device: str = ""
    device_uuid: str = ""
    library: str = ""
    library_version: str = ""
    library_path: str = ""
    library_build_id: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class WorldInfo:
    """Who took part, and how they found each other."""

    kind: str
    launcher: str
    size: int
    ranks: tuple[RankInfo, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        """Host names in order of first rank."""
        return tuple(dict.fromkeys(rank.host for rank in self.ranks))


@dataclass(frozen=True)
class Method:
    """How the numbers were made: printed beside them wherever they go."""

    mode: str = "throughput"
    time: str = "median over samples of the maximum over ranks of elapsed / k"
    interval: str = "95 % interval of the median from order statistics (99 % at each look when adaptive)"
    buffers: str = "rotating"
    units: str = "GB/s = 10^9 bytes/s; time in ns"
    retention: str = ""
    timing_cost_ns: float = 0.0


@dataclass(frozen=True)
class RunRecord:
    """Everything known about a run. ``machine`` and ``environment`` are those of rank 0's host.

    Once a run has ended, ``results`` has one for every case of the plan; before, for the finished ones.
    """

    schema: int
    run_id: str
    busbw_version: str
    created: str
    argv: tuple[str, ...]
    settings: dict[str, Any]
    plan: Plan
    status: RunStatus
    method: Method | None = None
    world: WorldInfo | None = None
    machine: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    results: tuple[CaseResult, ...] = ()
    ended: str = ""
    error: str = ""
    hint: str = ""

    @property
    def finished(self) -> tuple[CaseResult, ...]:
        """The results of the cases that the run came to."""
        return tuple(result for result in self.results if result.status is not Status.NOT_RUN)
