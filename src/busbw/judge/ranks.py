"""The ranks of a case beside each other: who took longest, and who came last.

A rank times itself. Where it times single calls, from entry to exit, and no rank can leave before the last
one has entered, its time is the wait for the last one and the operation: the late rank waits for nobody, so
its time is the *shortest*. Everywhere else times do not show who was late; ``Order`` says which case it is.

Back-to-back calls leave no gap between a rank's samples: each lasts from one exit to another. Exits of a
synchronising operation are common to all ranks, so a rank that is late in every call makes the samples of all
ranks longer by the same amount, whatever k.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from busbw.errors import UsageError
from busbw.model.case import Case
from busbw.model.collective import known_collective
from busbw.model.record import RankInfo, RunRecord
from busbw.model.sample import MIN_OVER_RANKS, SampleFlag
from busbw.stats.interval import Float64Array, estimate
from busbw.stats.percentile import least_samples

# Only a rank that is the last one beyond this is named: the last of many equal ranks is always some rank.
CONFIDENCE: Final = 0.99
LATENCY_MODE: Final = "latency"  # Timing.mode of single calls, each timed from entry to exit


class Order(StrEnum):
    """What the ranks' own times say about the order in which they arrived."""

    TOLD = "told"  # single calls of a synchronising operation: the shortest time is the last arriver's
    NOT_KEPT = "not-kept"  # would be known, but the samples of some ranks are not in the record
    IN_STEP = "in-step"  # back-to-back: a late rank stretches everybody's samples alike
    ROOTED = "rooted"  # ranks have different parts
    GROUPS = "groups"  # a rank waits for those of its group only
    NEIGHBOURS = "neighbours"  # a rank waits for some others only
    UNKNOWN = "unknown"  # the operation or the way of measuring is not known


@dataclass(frozen=True)
class RankTimes:
    """One rank's own times of one call of a case.

    ``median_ns``, ``p95_ns`` and ``max_ns`` are from its digest; p95_ns (interpolated) is None below 59
    samples. ``over_last_ns`` is the median over samples of its time above T_last, the shortest of any rank in
    the same sample, and ``shortest_share`` the share of samples in which no rank was shorter (equal ones
    all count): where single calls of a synchronising operation were timed. ``issue_ns`` is the median host
    time of issuing one call. These three need the rank's raw samples. ``run_delay_ns`` is how long it was
    ready to run and had no core, over all looks; None where that was not asked.
    """

    rank: int
    host: str
    local_rank: int | None
    device: str
    samples: int
    median_ns: float
    p95_ns: float | None
    max_ns: float
    run_delay_ns: int | None
    issue_ns: float | None = None
    over_last_ns: float | None = None
    shortest_share: float | None = None


@dataclass(frozen=True)
class Latest:
    """The rank that came last, or left first, in most samples.

    ``wait_ns``: how long the rank that came next to last waited for it, the median over samples with its
    interval at CONFIDENCE. ``call_ns``: the median of T_last, the call itself. Ranks leave a call at
    different moments too, by up to about the time it takes: only a wait beyond ``call_ns`` is lateness for
    certain.
    """

    rank: int
    shortest_share: float
    wait_ns: float
    low_ns: float
    high_ns: float
    call_ns: float

    @property
    def certain(self) -> bool:
        """Whether leaving early cannot explain it."""
        return self.low_ns > self.call_ns


@dataclass(frozen=True)
class RankTable:
    """The ranks of one case: ``raw_ranks`` of ``world_size`` have raw samples in the record, ``ranks`` are
    those with a digest. ``flagged`` samples have evidence against them on some rank; their times are in here
    all the same. ``latest`` is None where none stands out, or the order is not known.
    """

    case: int
    order: Order
    calls_per_sample: int
    world_size: int
    raw_ranks: int
    ranks: tuple[RankTimes, ...]
    flagged: int = 0
    latest: Latest | None = None

    @property
    def longest(self) -> RankTimes:
        """The rank with the largest median."""
        return max(self.ranks, key=lambda rank: rank.median_ns)

    @property
    def shortest(self) -> RankTimes:
        """The rank with the smallest median."""
        return min(self.ranks, key=lambda rank: rank.median_ns)


@dataclass(frozen=True)
class _OwnTimes:
    """``call_ns[r, i]``: one call of ``ranks[r]`` in the i-th sample that all of them have; ``last_ns[i]``:
    T_last, the shortest over all ranks of the run in that sample, None where it is not known.
    """

    ranks: tuple[int, ...]
    call_ns: Float64Array
    issue_ns: Float64Array
    last_ns: Float64Array | None


def rank_table(
    record: RunRecord, case: int, samples: npt.NDArray[np.void], digests: npt.NDArray[np.void]
) -> RankTable:
    """Compare the ranks of one case. Raises UsageError where the record has no times of single ranks."""
    mine = digests[digests["case"] == case]
    if not len(mine):
        raise UsageError(
            f"the record has no times of single ranks for case {case}",
            hint="`busbw show` shows what is stored of it; imported logs have no times of single ranks",
        )
    size = record.world.size if record.world is not None else len(mine)
    own = _own_times(samples[samples["case"] == case], size)
    order = _order(record, record.plan.cases[case], complete=len(own.ranks) == size)
    over_last = None
    if order in {Order.TOLD, Order.NOT_KEPT} and own.last_ns is not None:
        over_last = own.call_ns - own.last_ns
    places = {rank.rank: rank for rank in record.world.ranks} if record.world is not None else {}
    rows = tuple(_row(digest, places.get(int(digest["rank"])), own, over_last) for digest in mine)
    result = next((result for result in record.results if result.case == case), None)
    in_loops = record.plan.timing.time.startswith("loop")
    if result is None or "contended" in result.conditions or in_loops:
        # Whether a rank lost its core is not looked for where ranks share cores, or wait between loops
        # (``rank.measure.Sampling.add``). The digest's 0 says nothing there.
        rows = tuple(replace(row, run_delay_ns=None) for row in rows)
    k = result.calls_per_sample if result is not None else 0
    latest = _latest(own) if order is Order.TOLD and len(own.ranks) > 1 else None
    flagged = int(mine["flagged"].max())
    return RankTable(case, order, k, size, len(own.ranks), rows, flagged, latest)


def _order(record: RunRecord, case: Case, *, complete: bool) -> Order:
    row = known_collective(case.collective)
    if row is None or record.method is None:
        return Order.UNKNOWN
    if row.rooted:
        return Order.ROOTED
    if not row.synchronising:
        return Order.NEIGHBOURS
    if record.plan.of_case(case).groups:
        return Order.GROUPS
    if record.plan.timing.mode != LATENCY_MODE:
        return Order.IN_STEP
    return Order.TOLD if complete else Order.NOT_KEPT


def _own_times(rows: npt.NDArray[np.void], world_size: int) -> _OwnTimes:
    # Single calls beside the samples of k calls are a pass of their own, with positions of their own.
    rows = rows[(rows["flags"] & SampleFlag.SINGLE_CALL) == 0]
    own = rows[rows["rank"] >= 0]
    ranks = np.unique(own["rank"])
    positions, holders = np.unique(own["sample"], return_counts=True)
    # A file that a kill cut may have fewer samples of its last rank.
    shared = positions[holders == len(ranks)]
    common = own[np.isin(own["sample"], shared)]
    ordered = common[np.lexsort((common["sample"], common["rank"]))]
    call_ns, issue_ns = (
        (ordered[name] / ordered["k"]).reshape(len(ranks), len(shared)) for name in ("elapsed_ns", "issue_ns")
    )
    last_ns = call_ns.min(axis=0) if len(ranks) == world_size else None
    stored = rows[(rows["rank"] == MIN_OVER_RANKS) & np.isin(rows["sample"], shared)]
    if last_ns is None and len(stored) == len(shared):
        stored = stored[np.argsort(stored["sample"])]
        last_ns = np.asarray(stored["elapsed_ns"] / stored["k"], np.float64)
    return _OwnTimes(tuple(int(rank) for rank in ranks), call_ns, issue_ns, last_ns)


def _row(
    digest: np.void, place: RankInfo | None, own: _OwnTimes, over_last: Float64Array | None
) -> RankTimes:
    rank, samples = int(digest["rank"]), int(digest["samples"])
    at = own.ranks.index(rank) if rank in own.ranks and own.call_ns.size else None
    told = over_last[at] if over_last is not None and at is not None else None
    return RankTimes(
        rank=rank,
        host=place.host if place is not None else "",
        local_rank=place.local_rank if place is not None else None,
        device=place.device if place is not None else "",
        samples=samples,
        median_ns=float(digest["median_ns"]),
        p95_ns=float(digest["p95_ns"]) if samples >= least_samples(95) else None,
        max_ns=float(digest["max_ns"]),
        run_delay_ns=int(digest["run_delay_ns"]),
        issue_ns=float(np.median(own.issue_ns[at])) if at is not None else None,
        over_last_ns=float(np.median(told)) if told is not None else None,
        shortest_share=float((told == 0).mean()) if told is not None else None,
    )


def _latest(own: _OwnTimes) -> Latest | None:
    """The rank nearest to T_last, if the others are beyond it in the median with CONFIDENCE."""
    call_ns = own.call_ns
    if not call_ns.size:
        return None
    last = call_ns.min(axis=0)
    candidate = int(np.argmin(np.median(call_ns - last, axis=1)))
    others = np.delete(call_ns, candidate, axis=0)
    wait = estimate(others.min(axis=0) - call_ns[candidate], CONFIDENCE)
    if wait.low <= 0 or not wait.attained:
        return None
    share = float((call_ns[candidate] == last).mean())
    return Latest(own.ranks[candidate], share, wait.median, wait.low, wait.high, float(np.median(last)))
