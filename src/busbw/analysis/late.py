"""Which ranks a run's own times speak against: what a hunt may take as a reason to doubt them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.analysis.ranks import Order, RankTable, rank_table
from busbw.model.record import RunRecord

_LEAST_LONGER: Final = 0.05  # than the middle rank: the least loss that a hunt looks for
_UNEVEN: Final = frozenset(("alltoallv", "all_gatherv"))  # who takes longer may have more to move
_MOST_RANKS: Final = 4  # who all are doubted have nobody left to be compared with


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
    """Those that were late in half of the cases or more whose times tell it, most often late first; four at
    most. None where no case tells it: back-to-back calls of an operation that all ranks leave together make
    everybody's times long alike.
    """
    kept = sorted({int(case) for case in digests["case"]})
    cases = [case for case in kept if record.plan.cases[case].collective not in _UNEVEN]
    found = [_late(rank_table(record, case, samples, digests)) for case in cases]
    told = [each for each in found if each is not None]
    if not told or record.world is None:
        return None
    counts = Counter(rank for each in told for rank in each)
    often = [(rank, count) for rank, count in counts.most_common(_MOST_RANKS) if 2 * count >= len(told)]
    places = {each.rank: each for each in record.world.ranks}
    return tuple(
        LateRank(rank, places[rank].host, places[rank].local_rank or 0, count, len(told))
        for rank, count in often
        if rank in places
    )


def _late(table: RankTable) -> tuple[int, ...] | None:
    """The last rank, where the order is told; where a rank waits for its neighbours only, who took longer
    than the middle one. None where times do not tell.
    """
    if table.order is Order.TOLD:
        return (table.latest.rank,) if table.latest is not None else ()
    if table.order is not Order.NEIGHBOURS:
        return None
    middle = float(np.median([each.median_ns for each in table.ranks]))
    longer = [each.rank for each in table.ranks if each.median_ns > (1 + _LEAST_LONGER) * middle]
    return tuple(longer) if 2 * len(longer) < len(table.ranks) else ()
