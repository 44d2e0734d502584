"""The record of a run: one value that every reader takes, whoever measured it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from busbw.model.case import Case
from busbw.model.finding import Finding
from busbw.model.hang import HangAnswer
from busbw.model.plan import Plan
from busbw.model.result import CaseResult, Status
from busbw.model.traffic import Burst

# Raised when a field changes meaning or goes; readers refuse what they do not know.
SCHEMA_VERSION: Final = 3  # 2: cases in one pass, whose settling start was cut
READABLE_SCHEMAS: Final = (2, SCHEMA_VERSION)


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
class HostInfo:
    """What others call a host; empty where it is not known.

    ``vendor`` and ``product`` are the firmware's words: on EC2 the product is the instance type. ``instance``
    is a cloud's id. ``slurm_topology`` is Slurm's address of the node (switches from the top, then the node),
    ``nvlink_domain`` the NVLink domain of its GPUs over several hosts (cluster UUID and clique). ``image`` is
    the container image that the host's first rank ran in, where it says so (``images/``).
    """

    host: str
    vendor: str = ""
    product: str = ""
    instance: str = ""
    slurm_node: str = ""
    slurm_job: str = ""
    slurm_topology: str = ""
    pod: str = ""
    pod_namespace: str = ""
    kubernetes_node: str = ""
    nvlink_domain: str = ""
    image: str = ""


@dataclass(frozen=True)
class WorldInfo:
    """Who took part, and how they found each other. ``places`` has every host once, in order of first
    rank; empty in records of before, and in imported ones.
    """

    kind: str
    launcher: str
    size: int
    ranks: tuple[RankInfo, ...]
    places: tuple[HostInfo, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        """Host names in order of first rank."""
        return tuple(dict.fromkeys(rank.host for rank in self.ranks))

    @property
    def known_hosts(self) -> tuple[str, ...]:
        """The same; empty where that of any rank is not known, as in a log that names some of its ranks."""
        return self._of_every_rank([rank.host for rank in self.ranks])

    @property
    def known_devices(self) -> tuple[str, ...]:
        """Their names, each once; empty where the device of any rank is not known."""
        return self._of_every_rank([rank.device for rank in self.ranks])

    def _of_every_rank(self, words: list[str]) -> tuple[str, ...]:
        is_known = len(words) == self.size and not {"", NOT_STATED} & set(words)
        return tuple(dict.fromkeys(words)) if is_known else ()


# What an imported record has in place of a host or a device that its log does not name.
NOT_STATED: Final = "not stated"
# A clock's bound is against rank 0's clock: two ranks' clocks, so a span or a skew, may be off by twice that.
TWO_RANKS: Final = 2


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
    clock_error_ns: float | None = None  # of every rank's clock against rank 0's, where they are synchronised
    arrival: str = "none"


# Kinds of findings of what a log has no more: rows that are left out, and those that it lost or never had.
DAMAGED: Final = "damaged"
JOB_FAILED: Final = "job-failed"  # behind a table that is whole
OTHER_OUTPUT: Final = "other-output"  # looks like a row, and no row is missing
INCOMPLETE: Final = frozenset({DAMAGED, "cut", "gap", "no-end", "no-heading", "rows-missing"})
DOUBTS: Final = frozenset({"mislabelled", "contradiction"})  # the log says two things that cannot both be


@dataclass(frozen=True)
class ImportFinding:
    """Something that an importer noticed. ``line`` counts from 1; 0 where no line is meant."""

    kind: str
    text: str
    line: int = 0


@dataclass(frozen=True)
class ImportSource:
    """Where an imported record comes from: a table of a foreign log.

    ``fields`` says for values of the record whose word they are: header, rows (solved from size, time and
    bandwidths), command (a command line in the log), flag, path, format (what the tool always does) or file.
    ``header`` is what the log says of itself, unchanged, even where its rows contradict it; ``evidence`` what
    other lines of the log tell (NCCL's own, by kind). ``first_line`` and ``last_line`` count from 1.
    """

    path: str
    tool: str
    sha256: str = ""
    table: int = 1
    first_line: int = 0
    last_line: int = 0
    stream: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)
    findings: tuple[ImportFinding, ...] = ()


@dataclass(frozen=True)
class RunRecord:
    """Everything known about a run. ``machine`` and ``environment`` are those of rank 0's host;
    ``memory_bytes`` is the most that any rank took, by use; ``findings`` are what was noticed beside the
    numbers, ``bursts`` what links carried (--evidence counters).

    Once a run has ended, ``results`` has one for every case of the plan; before, for the finished ones.
    ``hunt`` is the verdict of a hunt, whose rounds are a file of their own.
    ``soak`` has the windows of a soak, and what was found in them (``rank.soak_log``).
    ``answer`` is what the run came to when it ended (``report.answer``), held against what was known then.
    ``hang`` is there where nothing moved any more: which ranks the others waited for.
    ``source`` is there where the numbers were not measured by busbw but imported.
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
    memory_bytes: dict[str, int] = field(default_factory=dict)
    ended: str = ""
    error: str = ""
    hint: str = ""
    source: ImportSource | None = None
    findings: tuple[Finding, ...] = ()
    bursts: tuple[Burst, ...] = ()
    hunt: dict[str, Any] = field(default_factory=dict)
    answer: dict[str, Any] = field(default_factory=dict)
    hang: HangAnswer | None = None
    soak: dict[str, Any] = field(default_factory=dict)

    @property
    def timed(self) -> tuple[tuple[Case, CaseResult], ...]:
        """The good cases that have a time, in order."""
        cases = self.plan.cases
        return tuple(
            (cases[result.case], result)
            for result in self.results
            if result.time_ns and result.status is Status.GOOD
        )

    @property
    def unmeasured(self) -> frozenset[int]:
        """The cases that the run did not come to, for whatever reason."""
        reached = {result.case for result in self.results if result.status is not Status.NOT_RUN}
        return frozenset(range(len(self.plan.cases))) - reached

    @property
    def created_by_file(self) -> bool:
        """Whether ``created`` is when a log's file was written or imported, not when it was measured."""
        said = self.source.fields.get("created", "") if self.source is not None else ""
        return said in ("file", "time of the import")

    @property
    def profiled(self) -> bool:
        """Whether a profiler was attached: then no time is one of the library's own."""
        return any("profiled" in result.conditions for result in self.results)

    @property
    def finished(self) -> tuple[CaseResult, ...]:
        """The results of the cases that the run came to, those that it had no time for among them."""
        return tuple(result for result in self.results if result.status is not Status.NOT_RUN or result.error)
