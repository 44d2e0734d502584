"""What runs beside a collective on purpose (--beside), and a case measured in turn alone and beside it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from busbw.model.case import Case
from busbw.model.collective import Placement, collective

COMPUTE: Final = "compute"
MEMORY: Final = "memory"
GEMM: Final = "gemm"
LAUNCH_NS: Final = 100_000
GEMM_EDGE: Final = 4096


@dataclass(frozen=True)
class Neighbour:
    """One ``--beside``. ``what`` is COMPUTE, MEMORY or GEMM: pieces of work, one after the other; or an
    operation, which the collectives' own ranks run too, or ``ranks`` that the collectives then leave to it.
    ``size_bytes`` is the operation's, 0 where it is that of the case.

    ``share`` is the part of a GPU's multiprocessors that it takes, on CPU ranks the part of the time that its
    thread is busy; 0 does nothing. ``sms`` is a number of multiprocessors instead. ``length_ns`` is that of a
    GPU's launches. ``n`` is the edge of GEMM's square matrices. ``text`` is what the user wrote.
    """

    text: str
    what: str
    share: float = 1.0
    sms: int | None = None
    length_ns: int = LAUNCH_NS
    ranks: tuple[int, ...] = ()
    size_bytes: int = 0
    n: int = GEMM_EDGE

    @property
    def is_operation(self) -> bool:
        """Whether it is one, and not a load."""
        return self.what not in (COMPUTE, MEMORY, GEMM)

    def operation_beside(self, case: Case) -> Case:
        """The operation beside a case, of its type."""
        row, size_bytes = collective(self.what), self.size_bytes or case.requested_bytes
        return replace(
            case,
            collective=self.what,
            op="sum" if row.reducing else "",
            root=0 if row.rooted else -1,
            requested_bytes=size_bytes,
            size_bytes=size_bytes,
            placement=Placement.OUT_OF_PLACE,
            coalesce=(),
            even=False,
        )


@dataclass(frozen=True)
class Factor:
    """How many times as much as alone, with the ends of its 95 % interval; None of too few rounds."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Beside:
    """One case in rounds, in each of them alone and beside a neighbour. ``what`` is the neighbour as the user
    wrote it, ``how`` says what it was on these ranks.

    ``alone_ns`` and ``beside_ns`` have the time of a call for each round: the mean of the round's samples.
    ``work_alone`` and ``work_beside`` are how much the neighbour got done by itself and beside the
    collective, in ``unit``, the mean over ranks. An operation's work is not counted: ``work_beside`` is the
    share of the case's time in which it was under way. ``clocks_mhz`` are the lowest clocks of any rank's
    device: of the collective alone, and beside the neighbour; empty where there is none to ask.

    ``mean``, ``median`` and ``p99`` (the slowest of a hundred calls) are how many times as long a call takes
    beside the neighbour; p99 is None where a sample holds several calls, or there are too few. ``left`` is
    the part of its own work that a load gets done meanwhile, and ``sum`` is 1 / mean + left: 2 is an ideal
    overlap, 1 is what taking turns would give; None where work is not counted.
    """

    what: str
    how: str
    alone_ns: tuple[float, ...]
    beside_ns: tuple[float, ...]
    mean: Factor
    median: Factor
    p99: Factor | None = None
    left: Factor | None = None
    sum: Factor | None = None
    work_alone: tuple[float, ...] = ()
    work_beside: tuple[float, ...] = ()
    unit: str = ""
    clocks_mhz: tuple[int, ...] = ()
