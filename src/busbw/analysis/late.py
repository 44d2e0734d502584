"""Which ranks a run's own times speak against: what a hunt may take as a reason to doubt them.

Only single calls tell (latency mode, each behind a barrier). Of an operation that all ranks leave together
whoever came last has the shortest time. A step of a ring (sendrecv) is long for the slow rank and for the two
beside it. Back to back, either way, a slow rank soon makes all ranks take its time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.analysis.ranks import LATENCY_MODE, Order, RankTable, rank_table
from busbw.model.record import RunRecord

_RING: Final = "sendrecv"
_LEAST_LONGER: Final = 0.05  # than the middle one of its like: the least loss that a hunt looks for
_LEAST_ALIKE: Final = 7  # ranks: where one is slow, three are longer, and they must be less than half
_MOST_RANKS: Final = 4


@dataclass(frozen=True)
class LateRank:
    """A rank that came last, or took longer than most, in ``cases`` of the ``told`` cases of a run."""

    rank: int
    host: str
    local_rank: int
    cases: int
    told: int


def late_ranks(
    record: RunRecord, samples: npt.NDArray[np.void], digests: npt.NDArray[np.void]
) -> tuple[LateRank, ...] | None:
    """Those that were late in half of the cases or more whose times tell it: most often late first, and of
    equally many cases who was longest; four at most. None where no case tells it.
    """
    if record.world is None or record.plan.timing.mode != LATENCY_MODE:
        return None
    tables = [rank_table(record, int(case), samples, digests) for case in np.unique(digests["case"])]
    cases = [record.plan.cases[table.case] for table in tables]
    found = [
        None if record.plan.of_case(case).groups else _late(table, case.collective)
        for case, table in zip(cases, tables, strict=True)
    ]
    told = [each for each in found if each is not None]
    if not told:
        return None
    shares: dict[int, list[float]] = defaultdict(list)
    for each in told:
        for rank, share in each.items():
            shares[rank].append(share)
    often = [rank for rank, own in shares.items() if 2 * len(own) >= len(told)]
    often.sort(key=lambda rank: (-len(shares[rank]), -sum(shares[rank]), rank))
    places = {each.rank: each for each in record.world.ranks}
    return tuple(
        LateRank(rank, places[rank].host, places[rank].local_rank or 0, len(shares[rank]), len(told))
        for rank in often[:_MOST_RANKS]
        if rank in places
    )


def _late(table: RankTable, collective: str) -> Mapping[int, float] | None:
    """By how much of a call each late rank was late; None where the times do not tell."""
    if table.order is Order.TOLD:
        last = table.latest
        return {last.rank: last.wait_ns / last.call_ns} if last is not None else {}
    return of_ring(table) if collective == _RING and table.order is Order.NEIGHBOURS else None


def of_ring(table: RankTable) -> Mapping[int, float] | None:
    """By what share a rank took longer than the middle one of its like, of those that took 5 % longer. Alike
    are the ranks beside another host, and the others. None where there are too few for a middle: of several
    hosts, too few beside another.
    """
    hosts = [each.host for each in table.ranks]
    like: dict[bool, list[int]] = defaultdict(list)
    for at, host in enumerate(hosts):
        beside = {hosts[at - 1], hosts[(at + 1) % len(hosts)]}
        like[beside != {host}].append(at)
    telling = like[len(set(hosts)) > 1]
    if len(hosts) != table.world_size or len(telling) < _LEAST_ALIKE:
        return None
    found: dict[int, float] = {}
    for places in like.values():
        if len(places) >= _LEAST_ALIKE:
            found |= _longer([(table.ranks[at].rank, table.ranks[at].median_ns) for at in places])
    return found


def _longer(times: Sequence[tuple[int, float]]) -> dict[int, float]:
    middle = float(np.median([own for _, own in times]))
    return {rank: own / middle - 1 for rank, own in times if own > (1 + _LEAST_LONGER) * middle}
