"""Check one case: fill, run once, compare where the data lie. Never inside timing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from busbw.backends.base import PreparedCase
from busbw.model.case import Case
from busbw.model.result import WrongData
from busbw.world.base import World

# A rank's vote on one check: wrong elements, first wrong offset, digest (two halves, to stay exact in int64).
_FIELDS = 4
_LOW_HALF = 2**32 - 1


@dataclass(frozen=True)
class Verdict:
    """``wrong`` elements summed over ranks and checks, and per wrong rank where they begin."""

    wrong: int
    wrong_at: tuple[WrongData, ...]


def verify(case: Case, prepared: PreparedCase, world: World, seed: int, checks: int) -> Verdict:
    """Run ``checks`` independent checks, each with its own data and on the next slot of the rotation.

    Collective over the world; every rank gets the same verdict. Ranks that must agree but differ in their
    digests are counted as wrong even if each passed its own comparison.
    """
    total, places = 0, dict[int, WrongData]()
    for i in range(checks):
        check_seed = seed + case.index * checks + i
        slot = i % prepared.slots
        prepared.load(check_seed, slot)
        world.barrier()
        prepared.run(slot)
        outcome = prepared.check(check_seed, slot)
        votes = np.zeros((world.size, _FIELDS), np.int64)
        votes[world.rank] = (
            outcome.wrong,
            outcome.first_offset,
            outcome.digest >> 32,
            outcome.digest & _LOW_HALF,
        )
        wrong, where = _judge(case, world, world.sum(votes.reshape(-1)).reshape(votes.shape))
        total += wrong
        for place in where:
            earlier = places.get(place.rank)
            places[place.rank] = (
                place if earlier is None else replace(earlier, wrong=earlier.wrong + place.wrong)
            )
    return Verdict(total, tuple(places[rank] for rank in sorted(places)))


def _judge(case: Case, world: World, votes: np.ndarray) -> tuple[int, list[WrongData]]:
    wrong = int(votes[:, 0].sum())
    where = [
        WrongData(rank, world.members[rank].host, int(votes[rank, 0]), int(votes[rank, 1]))
        for rank in np.flatnonzero(votes[:, 0]).tolist()
    ]
    if wrong == 0 and case.row.agreeing:
        differing = np.flatnonzero((votes[:, 2:] != votes[0, 2:]).any(axis=1)).tolist()
        where = [WrongData(rank, world.members[rank].host, 1, -1) for rank in differing]
        wrong = len(where)
    return wrong, where
