"""What is seen of a job that may hang, and what it comes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class RankSeen:
    """A rank of a communicator as NCCL tells of it. ``counts`` has the operations that it has launched, by
    NCCL's name of them; ``is_missing``: its process did not answer.
    """

    rank: int
    host: str
    pid: int
    gpu: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    is_missing: bool = False

    @property
    def process(self) -> tuple[str, int]:
        """Its host, and the process id there."""
        return self.host, self.pid


@dataclass(frozen=True)
class Communicator:
    """``size`` ranks, of which ``ranks`` were told of; of ``others`` only how many have launched up to which
    operation, by operation.
    """

    name: str
    size: int
    ranks: tuple[RankSeen, ...]
    others: tuple[tuple[str, int, int], ...] = ()  # operation, launched, ranks


@dataclass(frozen=True)
class JobSeen:
    """All communicators of a job at one moment. ``has_counts``: also of ranks that agree with each other."""

    nccl: str
    communicators: tuple[Communicator, ...]
    has_counts: bool = True


@dataclass(frozen=True)
class Recorded:
    """One collective of one rank in PyTorch's flight recorder: the ``sizes`` and ``types`` of its inputs;
    ``state`` is scheduled, started or completed.
    """

    number: int
    operation: str
    sizes: tuple[tuple[int, ...], ...]
    types: tuple[str, ...]
    state: str
    frames: tuple[str, ...] = ()  # of its call, the innermost first

    @property
    def is_over(self) -> bool:
        """Whether the GPU has done it."""
        return self.state == "completed"


@dataclass(frozen=True)
class Group:
    """A process group of PyTorch: its ``members`` by their ranks in the job, and of each that left a dump
    what its recorder has, by the collective's number.
    """

    name: str
    members: tuple[int, ...]
    entries: Mapping[int, Mapping[int, Recorded]]


@dataclass(frozen=True)
class ProcessSeen:
    """What its host's kernel says of a process: ``state`` is one letter as in proc(5), empty where there is
    no such process; ``waits_in`` is the kernel's function, ``kernel`` the kernel's stack where it may be
    read, ``stack`` its Python's, the innermost first; ``unanswered`` are the addresses to which it sends the
    same bytes again and again over TCP.
    """

    state: str
    command: str = ""
    waits_in: str = ""
    stack: tuple[str, ...] = ()
    kernel: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()


@dataclass(frozen=True)
class LinkSeen:
    """What a link did within one second: bytes ``carried``, sent and received (None where it has no such
    counters), and what it counted of what spoils a transfer.
    """

    name: str
    carried: tuple[int, int] | None
    events: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class HostSeen:
    """A host of a job that may hang: ``processes`` by their ids; ``log`` has the GPU driver's last errors."""

    processes: Mapping[int, ProcessSeen] = field(default_factory=dict)
    links: tuple[LinkSeen, ...] = ()
    log: tuple[str, ...] = ()


@dataclass(frozen=True)
class RankState:
    """Ranks that are in one state: a line of the table."""

    ranks: tuple[int, ...]
    where: str
    state: str
    last: str  # the operation that they launched last, or wait in


@dataclass(frozen=True)
class HangAnswer:
    """``is_hung`` is None where the evidence does not say. ``unseen`` is what this evidence cannot show."""

    is_hung: bool | None
    answer: str
    states: tuple[RankState, ...] = ()
    evidence: tuple[str, ...] = ()
    unseen: str = ""
    next: str = ""
