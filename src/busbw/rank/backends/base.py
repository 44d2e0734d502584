"""What every backend offers: prepared cases over a pair of buffers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from busbw.errors import BusbwError, ExitCode
from busbw.model.case import Case
from busbw.model.choice import Choice
from busbw.model.layout import Placement

if TYPE_CHECKING:
    from busbw.machine.native.core import Rounds
    from busbw.rank.world.base import World


Int64Array = npt.NDArray[np.int64]
Pairs = tuple[tuple[int, int], ...]
Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Look:
    """Samples of one look on one rank: nanoseconds of k calls each.

    ``issue_ns`` is the host time that issuing took; the same as ``elapsed_ns`` where calls block.
    ``entry_ns`` are the host clock's readings at the start of isolated calls, where the host times them.
    ``took_part`` is False on a rank that belongs to none of the groups that were timed.
    """

    elapsed_ns: Int64Array
    issue_ns: Int64Array
    entry_ns: Int64Array | None = None
    took_part: bool = True


@dataclass(frozen=True)
class Strays:
    """How many bytes beyond each end of its two buffers a call has written, 0 where it kept to them. In
    place, both are the receive buffer.
    """

    before_recv: int = 0
    past_recv: int = 0
    before_send: int = 0
    past_send: int = 0


@dataclass(frozen=True)
class CheckOutcome:
    """One rank's check of its receive buffer. ``first_offset`` is an element offset, -1 where all is right;
    ``digest`` identifies the contents, so that ranks that must agree can be compared. ``sent_changed`` counts
    elements of the send buffer that the call has changed.
    """

    wrong: int
    first_offset: int
    digest: int
    sent_changed: int = 0
    strays: Strays = Strays()


@dataclass(frozen=True)
class Identity:
    """What a backend measures with, for the header and the record: library, device, facts worth keeping."""

    library: str
    version: str
    path: str
    device: str = ""
    device_uuid: str = ""
    facts: dict[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class DeviceState:
    """Clock of a device's processors, and NVML's bits of what keeps it from being higher."""

    clock_mhz: int
    throttle_bits: int


def float_case(collective: str, size_bytes: int, op: str = "") -> Case:
    """A case that is in no plan: out of place, of floats."""
    return Case(
        0, collective, "float", op, -1, size_bytes, size_bytes, size_bytes // 4, Placement.OUT_OF_PLACE
    )


class CallFailed(BusbwError):
    """The library refused or failed a call. The communicator cannot be trusted afterwards: the run ends."""

    exit_code = ExitCode.RANK_FAILED


class PreparedCase:
    """One case, ready to be issued on this rank. ``slots`` is how many places the buffers rotate through;
    calls come in multiples of ``calls_per_issue``, no more than ``max_calls`` a sample.
    """

    slots: int
    calls_per_issue: int
    max_calls: int

    def load(self, seed: int, slot: int) -> None:
        """Put this rank's data for check ``seed`` into the slot and poison everything the call must write."""

    def check(self, seed: int, slot: int) -> CheckOutcome:
        """Compare the slot's receive buffer with what check ``seed`` must give, where it lies."""
        raise NotImplementedError

    def tensors(self, seed: int, slot: int, first_wrong: int) -> bytes:
        """What was sent, received and expected around the first wrong element, as a NumPy archive."""
        raise NotImplementedError

    def guard(self) -> None:
        """Write the bands before the first slot and behind the last one, of both buffers."""

    def strays(self) -> Strays:
        """What the calls since ``guard`` have written into the bands."""
        raise NotImplementedError

    def run(self, slot: int, calls: int = 1) -> None:
        """Issue ``calls`` calls and wait for them, untimed."""

    def run_checked(self, seed: int, slot: int, issue: Callable[[int], object] | None = None) -> CheckOutcome:
        """Issue one call on what ``load`` put there, and compare: as ``run`` and ``check``, and what else the
        call may have changed. ``issue(slot)`` takes the place of ``run`` where the call runs beside others.
        """
        raise NotImplementedError

    def time(self, lead: int, samples: int, k: int) -> Look:
        """Time ``samples`` x ``k`` back-to-back calls, behind ``lead`` untimed ones without a gap."""
        raise NotImplementedError

    def time_isolated(self, samples: int, delay_ns: Int64Array | None, *, barrier: bool) -> Look:
        """Time single calls, each behind a barrier of the library and this rank's delay."""
        raise NotImplementedError

    def time_loop(self, calls: int) -> int:
        """As nccl-tests times: host nanoseconds of ``calls`` calls and their completion."""
        raise NotImplementedError

    def close(self) -> None:
        """Give back what prepare took."""


class Backend:
    """A way to issue collectives. Made on each rank alone (libraries, memory), then connected together. What
    it inherits says that there is nothing to do, or to say.

    ``timing_cost_ns`` is what one reading of time costs the timed calls (a clock read, or an event in the
    stream), measured at start; ``max_samples_per_look`` bounds a look.
    """

    name: str
    identity: Identity
    timing_cost_ns: float
    max_samples_per_look: int

    def connect(self, world: World) -> None:
        """Make the communicator. Collective over the world."""

    def pair_up(self, pairs: Pairs, pause_ns: int = 0) -> None:
        """From now on permute is between these (source, target), ranks of the communicator; none: a ring.
        Where calls block, waits sleep ``pause_ns`` between looks; 0: they never sleep.
        """

    def regroup(self, world: World, groups: Groups) -> None:
        """From now on each of these groups of the world's ranks has a communicator of its own, split from
        the world's, and a rank in none of them sits out; without groups it is the world's again. No prepared
        case is open. Collective over the world, after connect.
        """

    def prepare(self, case: Case) -> PreparedCase:
        """Make the case ready on this rank."""
        raise NotImplementedError

    def together(
        self, prepared: Sequence[Any], calls: Sequence[int], slot: int, lead: int, rounds: int
    ) -> Rounds:
        """Time rounds in which cases run at once, each with so many calls from ``slot`` on, behind ``lead``
        untimed ones. The cases were prepared by backends of this kind, each on a communicator of its own.
        """
        raise NotImplementedError

    def inapplicable(self, case: Case) -> str:
        """Why this library or device cannot do the case; empty where it can."""
        return ""

    def conditions(self, case: Case) -> tuple[str, ...]:
        """Words of ``model.mark`` about how the case is done."""
        return ()

    def choice(self, case: Case, prepared: Any) -> Choice | None:  # noqa: ANN401 (a case of this backend)
        """How the library was seen to do the prepared case; None where nothing reports it. Issues one untimed
        call: collective over the case's ranks, of which one may know.
        """

    def device_state(self) -> DeviceState | None:
        """What slows the device down just now; None where there is nothing to ask."""

    def memory_report(self) -> dict[str, int]:
        """Bytes by what uses them, on this rank."""
        return {}

    def close(self) -> None:
        """Release buffers and communicator."""


class WithoutData(PreparedCase):
    """What cases that communicate nothing have alike; how long they take is theirs to say."""

    slots = 1
    max_calls = sys.maxsize
    calls_per_issue = 1

    def check(self, seed: int, slot: int) -> CheckOutcome:
        return CheckOutcome(0, -1, 0)

    def strays(self) -> Strays:
        return Strays()

    def run_checked(self, seed: int, slot: int, issue: Callable[[int], object] | None = None) -> CheckOutcome:
        (issue or self.run)(slot)
        return self.check(seed, slot)


class IdleCase(WithoutData):
    """Issues nothing and takes no time; the looks say so, or they would be the fastest of all."""

    def __init__(self, calls_per_issue: int = 1) -> None:
        self.calls_per_issue = calls_per_issue

    def time(self, lead: int, samples: int, k: int) -> Look:
        none = np.zeros(samples, np.int64)
        return Look(none, none, took_part=False)

    def time_isolated(self, samples: int, delay_ns: Int64Array | None, *, barrier: bool) -> Look:
        return self.time(0, samples, 1)

    def time_loop(self, calls: int) -> int:
        return 0
