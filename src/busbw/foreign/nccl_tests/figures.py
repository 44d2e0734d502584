"""The numbers of a row, by nccl-tests' definitions, from a result and its samples.

Its time is the mean over the calls of a loop, and over ranks what ``-a`` says; its bandwidths follow from it
also where the data were wrong and on one rank, where a record of busbw has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from busbw.foreign.nccl_tests.flags import Variables
from busbw.model.case import Case
from busbw.model.collective import Role
from busbw.model.plan import Plan
from busbw.model.result import CaseResult, GroupResult
from busbw.model.sample import MAX_OVER_RANKS, SampleFlag
from busbw.stats.percentile import nearest_rank
from busbw.units import NS_PER_US, gb_per_s

Float64Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Iterations:
    """``-I``: microseconds of single iterations; over ranks the maximum, and each rank's own where kept.

    ``skipped`` leading ones (``-K``) are not in the summary.
    """

    times_us: Float64Array
    by_rank_us: tuple[Float64Array, ...]
    skipped: int

    def summary(self) -> Mapping[str, float]:
        """Under the names of the JSON file. p50 is the upper of two middle ones, p95 and p99 are by nearest
        rank, and the deviation is that of the whole population (computeIterStats in src/util.cu).
        """
        ordered = np.sort(self.times_us[self.skipped :])
        mean, deviation = float(ordered.mean()), float(ordered.std())
        return {
            "min_us": float(ordered[0]),
            "max_us": float(ordered[-1]),
            "avg_us": mean,
            "p50_us": float(ordered[len(ordered) // 2]),
            "p95_us": nearest_rank(ordered, 95),
            "p99_us": nearest_rank(ordered, 99),
            "stdev_us": deviation,
            "cv_pct": deviation / mean * 100 if mean > 0 else 0.0,
        }


@dataclass(frozen=True)
class Figures:
    """One placement of a size. None: nothing was measured, or checked. ``wrong`` counts elements,
    ``wrong_ranks`` ranks that have some.
    """

    time_us: float | None = None
    algbw_gb_per_s: float | None = None
    busbw_gb_per_s: float | None = None
    wrong: int | None = None
    wrong_ranks: int = 0
    iterations: Iterations | None = None


def figures(
    case: Case, result: CaseResult, first: Role, average: int, single: Iterations | None = None
) -> Figures:
    """The numbers of a case. With groups (NCCL_TESTS_SPLIT) time is over the ranks of all groups, as ``-a``
    says, and bandwidth that of rank 0's group with that time: nccl-tests' single row. ``first`` is the part
    of rank 0 in its group.
    """
    checked = Figures(wrong=result.wrong, wrong_ranks=len(result.wrong_at))
    if result.time_ns is None:
        return checked
    time_ns = _mean_ns(result)
    if result.groups:
        own = next(group for group in result.groups if group.group == first.group)
        time_ns = _over_groups(result.groups, own, average)
    algbw = gb_per_s(case.algbw_bytes(first.ranks), time_ns)
    busbw = algbw * case.row.busbw_factor(first.ranks)
    return replace(
        checked, time_us=time_ns / NS_PER_US, algbw_gb_per_s=algbw, busbw_gb_per_s=busbw, iterations=single
    )


def _over_groups(groups: Sequence[GroupResult], own: GroupResult, average: int) -> float:
    """Nanoseconds over the ranks of all groups as ``-a`` says: rank 0, mean, minimum, maximum."""
    times, ranks = [_mean_ns(group) for group in groups], [group.ranks for group in groups]
    mean = math.fsum(time * count for time, count in zip(times, ranks, strict=True)) / sum(ranks)
    return (_mean_ns(own), mean, min(times), max(times))[average]


def _mean_ns(result: CaseResult | GroupResult) -> float:
    """Nanoseconds of a call, the mean over those that were timed."""
    found = result.mean_ns if result.mean_ns is not None else result.time_ns
    return math.nan if found is None else found


def iterations(samples: npt.NDArray[np.void], ranks: int, skipped: int) -> Iterations | None:
    """What the samples of one case say about single iterations: those of the pass of single calls where there
    was one, else all, which are single calls too (``-z``). None where there are none.
    """
    single = samples["flags"] & int(SampleFlag.SINGLE_CALL) != 0
    chosen = samples[single] if single.any() else samples
    over_ranks = _us(chosen[chosen["rank"] == MAX_OVER_RANKS])
    if len(over_ranks) <= skipped:
        return None
    own = tuple(_us(chosen[chosen["rank"] == rank]) for rank in range(ranks))
    kept_all = all(len(times) == len(over_ranks) for times in own)
    return Iterations(over_ranks, own if kept_all else (), skipped)


def _us(rows: npt.NDArray[np.void]) -> Float64Array:
    times: Float64Array = rows["elapsed_ns"] / rows["k"] / NS_PER_US
    return times


def alltoallv_summary(plan: Plan, case: Case, first: Role, variables: Variables, time_us: float) -> list[str]:
    """``NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY``, above a row: a line of the pattern, then bytes and bandwidth
    of each rank of the group that the row is of: that of rank 0, which plays ``first``.
    """
    ranks = first.ranks
    members = plan.groups[first.group] if plan.groups else range(ranks)
    table = plan.role(case, first).counts
    if table is not None and table.file_ranks:
        scale = f"scale={variables.matrix_scale:.3f}"
        pattern = f"mode=matrix nranks={ranks} matrix_dim={table.file_ranks} {scale}"
    else:
        share = case.shape(ranks).call_count * case.data_type.size_bytes
        pattern = f"mode=generated nranks={ranks} total_bytes={share * ranks} spread={variables.spread:.3f}"
    lines = [f"# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: {pattern} time_usec={time_us:.2f}"]
    for rank, member in enumerate(members):
        sent, received = plan.rank_bytes(case, member, ranks)
        algbw = gb_per_s(max(sent, received), time_us * NS_PER_US)
        lines.append(
            f"#   rank={rank} send_bytes={sent} recv_bytes={received}"
            f" alg_bw={algbw:.2f} bus_bw={algbw * case.row.busbw_factor(ranks):.2f}"
        )
    return lines
