"""Check one case: fill, run once, compare where the data lie. Never inside timing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from busbw.backends.base import CheckOutcome
from busbw.model.case import Case
from busbw.model.result import WrongData
from busbw.world.base import World

# A rank's vote on one check: wrong elements, first wrong offset, digest (two halves, to stay exact in int64).
_FIELDS = 4
_LOW_HALF = 2**32 - 1


OnWrong = Callable[[int, int, int], None]


class Checkable(Protocol):
    """What a check needs of a prepared case; see PreparedCase."""

    slots: int

    def load(self, seed: int, slot: int) -> None:
        """See PreparedCase."""

    def tensors(self, seed: int, slot: int, first_wrong: int) -> bytes:
        """See PreparedCase."""

    def run_checked(self, seed: int, slot: int) -> CheckOutcome:
        """See PreparedCase."""


@dataclass(frozen=True)
class Verdict:
    """``wrong`` elements summed over ranks and checks, and per wrong rank where they begin."""

    wrong: int
    wrong_at: tuple[WrongData, ...]

    def of(self, ranks: Iterable[int]) -> int:
        """Wrong elements of some ranks."""
        wanted = set(ranks)
        return sum(place.wrong for place in self.wrong_at if place.rank in wanted)


def verify(
    case: Case,
    prepared: Checkable,
    world: World,
    seed: int,
    checks: int,
    groups: tuple[tuple[int, ...], ...] = (),
    on_wrong: OnWrong | None = None,
) -> Verdict:
    """Run ``checks`` independent checks, each with its own data and on the next slot of the rotation.

    Collective over the world; every rank gets the same verdict. Ranks that must agree (those of one of the
    ``groups``, or all) but differ in their digests are counted as wrong even if each passed its own
    comparison. ``on_wrong(seed, slot, offset)`` is called on every rank after a check that failed anywhere,
    while its data are still there; ``offset`` is the first wrong element of this rank, -1 where it has none.
    """
    total, places = 0, dict[int, WrongData]()
    groups = groups or (tuple(range(world.size)),)
    for i in range(checks):
        check_seed = seed + case.index * checks + i
        slot = i % prepared.slots
        prepared.load(check_seed, slot)
        world.barrier()
        outcome = prepared.run_checked(check_seed, slot)
        votes = np.zeros((world.size, _FIELDS), np.int64)
        votes[world.rank] = (
            outcome.wrong,
            outcome.first_offset,
            outcome.digest >> 32,
            outcome.digest & _LOW_HALF,
        )
        wrong, where = _judge(case, world, world.sum(votes.reshape(-1)).reshape(votes.shape), groups)
        total += wrong
        if wrong and on_wrong is not None:
            on_wrong(check_seed, slot, outcome.first_offset)
        for place in where:
            earlier = places.get(place.rank)
            places[place.rank] = (
                place if earlier is None else replace(earlier, wrong=earlier.wrong + place.wrong)
            )
    return Verdict(total, tuple(places[rank] for rank in sorted(places)))


def _judge(
    case: Case, world: World, votes: np.ndarray, groups: tuple[tuple[int, ...], ...]
) -> tuple[int, list[WrongData]]:
    wrong = int(votes[:, 0].sum())
    where = [
        WrongData(rank, world.members[rank].host, int(votes[rank, 0]), int(votes[rank, 1]))
        for rank in np.flatnonzero(votes[:, 0]).tolist()
    ]
    if wrong == 0 and case.row.agreeing:
        differing = [
            rank for members in groups for rank in members if (votes[rank, 2:] != votes[members[0], 2:]).any()
        ]
        where = [WrongData(rank, world.members[rank].host, 1, -1) for rank in differing]
        wrong = len(where)
    return wrong, where
