"""Check one case before and after it is timed: fill, run once, compare where the data lie.

The tensors of failed checks go to rank 0, bounded (--save-wrong).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass, replace
from typing import Final, Protocol

import numpy as np

from busbw.model.case import Case
from busbw.model.result import WrongData
from busbw.rank.backends.base import CheckOutcome, Int64Array, PreparedCase, Strays
from busbw.rank.world.base import World
from busbw.units import counted

# A rank's vote on one check: wrong elements, first wrong offset and 1, digest (two halves, to stay exact in
# int64), changed elements of the send buffer, and the four numbers of Strays; none is below 0.
_FIELDS = 9
_FOUND = [0, *range(4, _FIELDS)]  # those that are 0 where nothing is wrong
_LOW_HALF = 2**32 - 1
# Added to the seed of a run for the check after timing: beyond the seeds of the other checks.
AFTER_SEED: Final = 2**48
_AFTER: Final = "in the check after the timed calls"
KEPT_RANKS: Final = 4  # of one check
KEPT_CHECKS: Final = 16  # of a run
Issue = Callable[[int], object] | None
NOTHING_BESIDE: Final[Int64Array] = np.empty(0, np.int64)
NO_STRAYS: Final = Strays()


@dataclass(frozen=True)
class Verified:
    """``wrong`` elements summed over ranks, and per wrong rank what and where they are. Of several checks the
    one counts that found most on a rank: a fault that each of them sees is one fault.
    """

    wrong: int
    wrong_at: tuple[WrongData, ...]

    def of(self, ranks: Iterable[int]) -> int:
        """Wrong elements of some ranks."""
        wanted = set(ranks)
        return sum(place.wrong for place in self.wrong_at if place.rank in wanted)


@dataclass(frozen=True)
class Checks:
    """The checks of one prepared case, each with its own data. Collective over the world; every rank gets the
    same verdict. Ranks that must agree (those of one of the ``groups``, or all) but differ in their digests
    are counted as wrong even if each passed its own comparison. ``keeper`` keeps what a check that failed
    anywhere has left; ``issue``: see PreparedCase.run_checked.
    """

    case: Case
    prepared: PreparedCase
    world: World
    seed: int
    groups: tuple[tuple[int, ...], ...] = ()
    keeper: WrongKeeper | None = None
    issue: Issue = None

    def before(self, checks: int) -> Verified:
        """Before the timed calls: so many checks, each on the next slot of the rotation."""
        verified = Verified(0, ())
        for i in range(checks):
            slot = i % self.prepared.slots
            verified = _joined(verified, self._one(self.seed + self.case.index * checks + i, slot)[0])
        return verified

    def after(self, before: Verified, beside: Int64Array = NOTHING_BESIDE) -> tuple[Verified, Int64Array]:
        """What was found ``before``, and what is found after the timed calls: what they have written beside
        their buffers since ``guard``, and one check more, on the last slot. Its only control message is the
        votes, and the maximum over ranks of ``beside``, which is returned too.
        """
        strays, seed = self.prepared.strays(), self.seed + AFTER_SEED + self.case.index
        found, most = self._one(seed, self.prepared.slots - 1, strays, beside)
        if before.wrong == 0:
            later = (replace(at, fault="; ".join(filter(None, (at.fault, _AFTER)))) for at in found.wrong_at)
            return Verified(found.wrong, tuple(later)), most
        return _joined(before, found), most

    def _one(
        self, seed: int, slot: int, strays: Strays = NO_STRAYS, beside: Int64Array = NOTHING_BESIDE
    ) -> tuple[Verified, Int64Array]:
        """One check's verdict, and the maximum of ``beside``; ``strays`` are those of calls before it."""
        self.prepared.load(seed, slot)
        outcome = self.prepared.run_checked(seed, slot, self.issue)
        furthest = Strays(*map(max, astuple(strays), astuple(outcome.strays)))
        outcome = replace(outcome, strays=furthest)
        found, most = _judged(self.case, self.world, outcome, self.groups, beside)
        if found.wrong and self.keeper is not None:
            self.keeper.keep(self.case.index, self.prepared, seed, slot, outcome.first_offset)
        return found, most


def _joined(first: Verified, second: Verified) -> Verified:
    """Both; for each rank, where and what was wrong first."""
    places = {place.rank: place for place in first.wrong_at}
    for place in second.wrong_at:
        earlier = places.get(place.rank, place)
        most, fault = max(earlier.wrong, place.wrong), earlier.fault or place.fault
        places[place.rank] = replace(earlier, wrong=most, fault=fault)
    wrong = sum(place.wrong for place in places.values())
    return Verified(wrong, tuple(places[rank] for rank in sorted(places)))


def _judged(
    case: Case,
    world: World,
    outcome: CheckOutcome,
    groups: tuple[tuple[int, ...], ...],
    beside: Int64Array,
) -> tuple[Verified, Int64Array]:
    """The verdict of all ranks on one check, and the maximum of ``beside``. Collective."""
    own = np.zeros((world.size, _FIELDS), np.int64)
    own[world.rank] = (
        outcome.wrong,
        outcome.first_offset + 1,
        outcome.digest >> 32,
        outcome.digest & _LOW_HALF,
        outcome.sent_changed,
        *astuple(outcome.strays),
    )
    # Each row is its rank's alone, so that the maximum is what the rank said.
    most = world.max(np.concatenate((own.reshape(-1), beside)))
    votes = most[: own.size].reshape(own.shape)
    type_bytes = case.data_type.size_bytes
    where = []
    for rank in np.flatnonzero(votes[:, _FOUND].any(axis=1)).tolist():
        wrong, after_first, _, _, sent_changed, *reached = votes[rank].tolist()
        strays = Strays(*reached)
        stray = sum(-(-reach // type_bytes) for reach in astuple(strays))
        place = WrongData(rank, world.members[rank].host, wrong + stray + sent_changed, after_first - 1)
        where.append(replace(place, fault=_fault(strays, sent_changed)))
    if not where and case.row.agreeing:
        where = [
            WrongData(rank, world.members[rank].host, 1, -1, f"differs from rank {members[0]}")
            for members in groups or (tuple(range(world.size)),)
            for rank in members
            if (votes[rank, 2:4] != votes[members[0], 2:4]).any()
        ]
    return Verified(sum(place.wrong for place in where), tuple(where)), most[own.size :]


def _fault(strays: Strays, sent_changed: int) -> str:
    """What was wrong beside the received elements, in words; empty for nothing."""
    places = {
        "before the receive buffer": strays.before_recv,
        "past the receive buffer": strays.past_recv,
        "before the send buffer": strays.before_send,
        "past the send buffer": strays.past_send,
    }
    words = [f"wrote {counted(reach, 'byte')} {place}" for place, reach in places.items() if reach]
    return "; ".join([*words, "changed the send buffer"] if sent_changed else words)


class Saves(Protocol):
    """Takes the files, on rank 0."""

    def saved(self, name: str, content: bytes) -> None:
        """One file."""


class WrongKeeper:
    """Keeps the first checks of a run that failed, of the first ranks that found something."""

    def __init__(self, world: World, saves: Saves | None) -> None:
        self._world = world
        self._saves = saves
        self._left = KEPT_CHECKS

    def keep(self, case: int, prepared: PreparedCase, seed: int, slot: int, first_wrong: int) -> None:
        """What a failed check of the case has left, while its data are still there. Collective over the
        world; ``first_wrong`` is the first wrong element of this rank, -1 where it has none.
        """
        if self._left == 0:
            return
        self._left -= 1
        world = self._world
        found = np.zeros(world.size, np.int64)
        found[world.rank] = first_wrong >= 0
        speakers = np.flatnonzero(world.sum(found))[:KEPT_RANKS].tolist()
        own = prepared.tensors(seed, slot, first_wrong) if world.rank in speakers else b""
        gathered = world.gather(own)
        if gathered is not None and self._saves is not None:
            for rank in speakers:
                self._saves.saved(f"case-{case}-seed-{seed}-rank-{rank}.npz", gathered[rank])
