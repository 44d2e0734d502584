"""What every backend offers: prepared cases over a pair of buffers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from busbw.errors import BusbwError, ExitCode
from busbw.model.case import Case

if TYPE_CHECKING:
    from busbw.world.base import World

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Look:
    """Samples of one look on one rank: nanoseconds of k calls each.

    ``issue_ns`` is the host time that issuing took; the same as ``elapsed_ns`` where calls block.
    """

    elapsed_ns: Int64Array
    issue_ns: Int64Array


@dataclass(frozen=True)
class CheckOutcome:
    """One rank's check of its receive buffer. ``first_offset`` is an element offset, -1 where all is right;
    ``digest`` identifies the contents, so that ranks that must agree can be compared.
    """

    wrong: int
    first_offset: int
    digest: int


@dataclass(frozen=True)
class Identity:
    """What a backend measures with, for the header and the record: library, device, facts worth keeping."""

    library: str
    version: str
    path: str
    device: str = ""
    device_uuid: str = ""
    facts: dict[str, str | int | float] = field(default_factory=dict)


class CallFailed(BusbwError):
    """The library refused or failed a call. The communicator cannot be trusted afterwards: the run ends."""

    exit_code = ExitCode.RANK_FAILED


class PreparedCase(Protocol):
    """One case, ready to be issued on this rank. ``slots`` is how many places the buffers rotate through."""

    slots: int

    def load(self, seed: int, slot: int) -> None:
        """Put this rank's data for check ``seed`` into the slot and poison everything the call must write."""

    def check(self, seed: int, slot: int) -> CheckOutcome:
        """Compare the slot's receive buffer with what check ``seed`` must give, where it lies."""

    def run(self, slot: int, calls: int = 1) -> None:
        """Issue ``calls`` calls and wait for them, untimed."""

    def time(self, lead: int, samples: int, k: int) -> Look:
        """Time ``samples`` x ``k`` back-to-back calls, behind ``lead`` untimed ones without a gap."""

    def close(self) -> None:
        """Give back what prepare took."""


class Backend(Protocol):
    """A way to issue collectives. Made on each rank alone (libraries, memory), then connected together.

    ``timing_cost_ns`` is what one reading of time costs the timed calls (a clock read, or an event in the
    stream), measured at start; ``max_samples_per_look`` bounds a look.
    """

    name: str
    identity: Identity
    timing_cost_ns: float
    max_samples_per_look: int

    def connect(self, world: World) -> None:
        """Make the communicator. Collective over the world."""

    def prepare(self, case: Case) -> PreparedCase:
        """Make the case ready on this rank."""

    def interrupt(self) -> None:
        """End a wait in another thread, if there is one."""

    def close(self) -> None:
        """Release buffers and communicator."""
