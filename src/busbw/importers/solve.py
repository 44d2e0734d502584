"""Finding out what a log does not say, from what its printed digits allow.

Every printed number is an interval of half a unit of its last digit, so every row gives an interval for the
factor busbw / algbw, hence for the number of ranks; all rows together a narrower one.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from busbw.importers.body import Timing
from busbw.importers.columns import BoolArray
from busbw.importers.headings import NCCOM_TEST
from busbw.importers.operations import BLOCKED, DOUBLE, PLAIN, REDUCING, ROOTED, SHARED, UNEVEN
from busbw.importers.osu import type_bytes
from busbw.importers.printed import FloatArray
from busbw.importers.table import Table

# Intervals are widened by this much, relatively, against the rounding of their own arithmetic.
SLACK = 1e-9
_NCCOM_TEST = frozenset(
    {
        "all_reduce",
        "all_gather",
        "all_gatherv",
        "reduce_scatter",
        "alltoall",
        "alltoallv",
        "sendrecv",
        "permute",
    }
)
_JUDGED = (DOUBLE | SHARED | PLAIN) - UNEVEN - {"permute"}
# Up to here a factor is told from its limit (2 or 1) only by digits that no tool prints.
_MOST_RANKS = 10_000_000


class Consensus(NamedTuple):
    """The interval on which most rows agree. ``agree`` of ``judged`` rows have it."""

    low: float
    high: float
    agree: int
    judged: int

    def contains(self, value: float) -> bool:
        """Whether the value lies within."""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class RankInterval:
    """Numbers of ranks that the printed digits allow. ``high`` is None without an upper bound."""

    low: int
    high: int | None

    @property
    def only(self) -> int | None:
        """The number of ranks where only one fits."""
        return self.low if self.low == self.high else None

    def contains(self, ranks: int) -> bool:
        """Whether that many ranks fit."""
        return self.low <= ranks and (self.high is None or ranks <= self.high)

    def __str__(self) -> str:
        if self.high is None:
            return f"{self.low} or more"
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"


def consensus(low: FloatArray, high: FloatArray) -> Consensus | None:
    """The interval that lies in most of the given ones; None without any."""
    usable = np.isfinite(low) & (low <= high)
    low, high = low[usable] * (1 - SLACK), high[usable] * (1 + SLACK)
    if not len(low):
        return None
    ends = np.concatenate([low, high])
    steps = np.concatenate([np.ones(len(low), np.int64), -np.ones(len(high), np.int64)])
    order = np.lexsort((-steps, ends))  # beginnings before ends: touching intervals agree
    depth = np.cumsum(steps[order])
    best = int(np.argmax(depth))
    return Consensus(float(ends[order[best]]), float(ends[order[best + 1]]), int(depth[best]), len(low))


def factor_bounds(timing: Timing) -> tuple[FloatArray, FloatArray]:
    """The ratio busbw / algbw of each row: what its digits allow. NaN where a row cannot tell."""
    rows = len(timing.time_us.value)
    if timing.algbw is None or timing.busbw is None:
        return np.full(rows, math.nan), np.full(rows, math.nan)
    usable = (timing.algbw.low > 0) & (timing.busbw.value > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(usable, timing.busbw.low / timing.algbw.high, math.nan)
        high = np.where(usable, timing.busbw.high / timing.algbw.low, math.nan)
    return low, high


def scale_bounds(timing: Timing, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The ratio algbw / (size / time) of each row, in decimal GB/s: what its digits allow."""
    rows = len(timing.time_us.value)
    if timing.algbw is None:
        return np.full(rows, math.nan), np.full(rows, math.nan)
    usable = (timing.algbw.value > 0) & (sizes > 0) & (timing.time_us.low > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        # bytes / us / 1000 are GB/s
        low = np.where(usable, timing.algbw.low * timing.time_us.low * 1e3 / sizes, math.nan)
        high = np.where(usable, timing.algbw.high * timing.time_us.high * 1e3 / sizes, math.nan)
    return low, high


def total_factor_bounds(timing: Timing, sizes: FloatArray, unit: float) -> tuple[FloatArray, FloatArray]:
    """The ratio busbw / (size / time) of each row; ``unit`` is the size of the printed GB in 10^9 bytes."""
    rows = len(timing.time_us.value)
    if timing.busbw is None:
        return np.full(rows, math.nan), np.full(rows, math.nan)
    usable = (timing.busbw.value > 0) & (sizes > 0) & (timing.time_us.low > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(usable, timing.busbw.low * unit * timing.time_us.low * 1e3 / sizes, math.nan)
        high = np.where(usable, timing.busbw.high * unit * timing.time_us.high * 1e3 / sizes, math.nan)
    return low, high


def factor(table: Table, unit: float | None) -> Consensus | None:
    """The factor of busbw on which the rows agree: by busbw / algbw, and by size and time where these are
    good (``unit`` not None).
    """
    sizes = table.sizes.astype(np.float64)
    lows, highs = [], []
    for timing in table.timings:
        low, high = factor_bounds(timing)
        if unit is not None and table.trusted_time:
            other_low, other_high = total_factor_bounds(timing, sizes, unit)
            low, high = np.fmax(low, other_low), np.fmin(high, other_high)
        lows.append(low)
        highs.append(high)
    return consensus(np.concatenate(lows), np.concatenate(highs)) if lows else None


def ranks_of(name: str, found: Consensus | None) -> RankInterval | None:
    """The numbers of ranks for which the operation has this factor; None where the factor tells nothing."""
    if found is None or name in PLAIN or name not in DOUBLE | SHARED:
        return None
    limit = 2.0 if name in DOUBLE else 1.0
    if found.low > limit:
        return None
    # factor = limit (n - 1) / n, so n = limit / (limit - factor)
    low = _MOST_RANKS if found.low >= limit else math.ceil(limit / (limit - max(found.low, 0.0)) - 1e-6)
    high = math.floor(limit / (limit - found.high) + 1e-6) if found.high < limit else None
    if high is not None and high < low:
        return None
    return RankInterval(max(low, 1), high if high is None or high < _MOST_RANKS else None)


def possible_operations(
    table: Table, found: Consensus | None, scale: Consensus | None, among: Collection[str] = ()
) -> tuple[str, ...]:
    """The operations that fit size, count, root, reduction and factor of all rows; only those ``among`` some
    names, where such are given.

    nccom-test prints neither reduction nor root, and all its sizes are count times element: there only a
    factor above 1 tells, which all_reduce alone has.
    """
    if not len(table) or table.counts[0] < 0:
        return ()
    if table.tool == NCCOM_TEST:
        names = sorted(_NCCOM_TEST.intersection(among) if among else _NCCOM_TEST)
        return tuple(name for name in names if found is None or _fits_factor(name, found, None, table))
    names = sorted(_JUDGED.intersection(among) if among else _JUDGED)
    reducing = any(word not in ("none", "") for word in table.redops)
    rooted = bool((table.roots >= 0).any())
    blocks = _blocks(table)
    fits = []
    for name in names:
        # sendrecv_perf prints the reduction that it was asked for, and reduces nothing.
        if ((name in REDUCING) != reducing and name != "sendrecv") or (name in ROOTED) != rooted:
            continue
        if blocks is not None and blocks > 1 and name not in BLOCKED:
            continue
        if blocks == 1 and name in BLOCKED:
            continue
        if found is not None and not _fits_factor(name, found, scale, table):
            continue
        fits.append(name)
    return tuple(fits)


def _fits_factor(name: str, found: Consensus, scale: Consensus | None, table: Table) -> bool:
    # hypercube moves n - 1 of n blocks: its algbw is less than size / time, as in old versions that of others
    whole = scale is None or scale.contains(1.0) or table.tool == NCCOM_TEST
    if name in PLAIN:
        return found.contains(1.0) and whole == (name != "hypercube")
    if not whole and name in SHARED:
        return table.old_formulas and found.contains(1.0)
    ranks = ranks_of(name, found)
    blocks = block_ranks(table, name)
    return ranks is not None and (blocks is None or ranks.contains(blocks))


def _blocks(table: Table) -> int | None:
    """How many times the count a size holds; None where the type is foreign or rows differ."""
    known = {dtype: type_bytes(dtype) for dtype in set(table.types)}
    if None in known.values():
        return None
    widths = np.array([known[dtype] for dtype in table.types], np.int64)
    moved = table.counts > 0
    blocks = table.sizes[moved] // (table.counts[moved] * widths[moved])
    return int(blocks[0]) if len(blocks) and (blocks == blocks[0]).all() else None


def block_ranks(table: Table, name: str) -> int | None:
    """The number of ranks that size and count say where buffers hold a block for every rank."""
    blocks = _blocks(table) if name in BLOCKED and len(table) and table.counts[0] >= 0 else None
    return blocks if blocks is not None and blocks > 1 else None


def agreeing(low: FloatArray, high: FloatArray, lowest: float, highest: float) -> BoolArray:
    """Rows that allow some value of an interval, and those that cannot tell."""
    with np.errstate(invalid="ignore"):
        against = (low * (1 - SLACK) > highest) | (high * (1 + SLACK) < lowest)
    return ~against
