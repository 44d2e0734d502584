"""Which ranks a run's own times speak against: what a hunt may take as a reason to doubt them.

Only single calls tell (latency mode, each behind a barrier). Of an operation that all ranks leave together
whoever came last has the shortest time. A step of a ring (sendrecv) is long for the slow rank and for the two
beside it; where it sends slowly and what it sends fits its library's or kernel's buffers, for the next rank
alone. Back to back, either way, a slow rank soon makes all ranks take its time.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.analysis.ranks import LATENCY_MODE, Order, RankTable, RankTimes, rank_table
from busbw.model.record import RunRecord

_RING: Final = "sendrecv"
_LEAST_LONGER: Final = 0.05  # than the middle one of its like: the least loss that a hunt looks for
# Ranks that are alike. Of those that receive from another host and send to their own, or the other way round,
# one slow rank makes two longer, and the lower middle one of four is neither. Of others it makes three so.
_LEAST_ALIKE: Final = {(True, False): 4, (False, True): 4, (True, True): 7, (False, False): 7}
# Of a step: where the shortest of those that are alike is shorter by more, half of them or more may be slow.
_MOST_SHORTER: Final = 0.25
_MOST_RANKS: Final = 4


@dataclass(frozen=True)
class LateRank:
    """A rank that came last, or took longer than most, in ``cases`` of the ``told`` cases of a run. With
    ``sends_to`` it is that rank that did, alone, and this one, which did not, sends to it.
    """

    rank: int
    host: str
    local_rank: int
    cases: int
    told: int
    sends_to: int | None = None


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
        for rank, share in {**each.senders, **each.late}.items():
            shares[rank].append(share)
    often = [rank for rank, own in shares.items() if 2 * len(own) >= len(told)]
    often.sort(key=lambda rank: (-len(shares[rank]), -sum(shares[rank]), rank))
    places = {each.rank: each for each in record.world.ranks}
    late = Counter(rank for each in told for rank in each.late)
    return tuple(
        LateRank(
            rank,
            places[rank].host,
            places[rank].local_rank or 0,
            late[rank] or len(shares[rank]),
            len(told),
            None if late[rank] else (rank + 1) % tables[0].world_size,
        )
        for rank in often[:_MOST_RANKS]
        if rank in places
    )


@dataclass(frozen=True)
class _Told:
    """By what share of a call ranks were late in a case; of a ring, how late the one is to whom they send."""

    late: Mapping[int, float]
    senders: Mapping[int, float] = field(default_factory=dict)


def _late(table: RankTable, collective: str) -> _Told | None:
    """None where the times do not tell."""
    if table.order is Order.TOLD:
        last = table.latest
        return _Told({last.rank: last.wait_ns / last.call_ns} if last is not None else {})
    if collective != _RING or table.order is not Order.NEIGHBOURS:
        return None
    late = of_ring(table)
    return None if late is None else _Told(late, _senders(late, table.world_size))


def of_ring(table: RankTable) -> Mapping[int, float] | None:
    """How much longer a rank took than the middle one of its like, of those that took 5 % longer, both in
    shares of the longest such middle: a step, where a rank that only hands over takes next to nothing. Alike
    are ranks that receive from another host, or from their own, and send to another, or to their own. None
    where there are too few for a middle: of several hosts, too few beside another; and where nobody took
    longer, but not all that are beside another could be compared, or some are so much shorter that half may
    be slow.
    """
    hosts = [each.host for each in table.ranks]
    if len(hosts) != table.world_size:
        return None
    alike = _alike(table)
    telling = {key: own for key, own in alike.items() if len(own) >= _LEAST_ALIKE[key]}
    beside = {key for key in alike if any(key) == (len(set(hosts)) > 1)}
    if not beside & telling.keys():
        return None
    middles = {key: statistics.median_low([each.median_ns for each in own]) for key, own in telling.items()}
    steps = {key: max(middles[each] for each in middles if any(each) == any(key)) for key in middles}
    longer = {
        each.rank: (each.median_ns - middles[key]) / steps[key]
        for key, own in telling.items()
        for each in own
    }
    late = {rank: share for rank, share in longer.items() if share > _LEAST_LONGER}
    is_open = beside - telling.keys() or min(longer.values()) < -_MOST_SHORTER
    return None if is_open and not late else late


def _alike(table: RankTable) -> Mapping[tuple[bool, bool], list[RankTimes]]:
    """Ranks by whether they receive from, and send to, another host. Those alone on their host, where they
    are few, with others that receive from another: receiving is what takes long.
    """
    hosts = [each.host for each in table.ranks]
    found: dict[tuple[bool, bool], list[RankTimes]] = defaultdict(list)
    for at, each in enumerate(table.ranks):
        found[hosts[at - 1] != hosts[at], hosts[(at + 1) % len(hosts)] != hosts[at]].append(each)
    alone, few = (True, True), _LEAST_ALIKE[True, True]
    beside = found[True, False]
    if 0 < len(found[alone]) < few <= len(found[alone]) + len(beside):
        found[alone] += beside
        del found[True, False]
    return {key: own for key, own in found.items() if own}


def _senders(late: Mapping[int, float], ranks: int) -> Mapping[int, float]:
    """Who sends to a rank that is late alone: either may be slow."""
    return {
        (rank - 1) % ranks: share
        for rank, share in late.items()
        if (rank - 1) % ranks not in late and (rank + 1) % ranks not in late
    }
