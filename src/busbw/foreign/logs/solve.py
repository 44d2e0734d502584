"""Solve for what a log does not state, from the range that its printed digits allow.

Every printed number is an interval of half a unit of its last digit, so every row gives an interval for the
factor busbw / algbw, hence for the number of ranks; all rows together a narrower one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from busbw.foreign.logs.operations import (
    BLOCKED,
    DOUBLE,
    PLAIN,
    REDUCING,
    ROOTED,
    SHARED,
    UNEVEN,
    type_bytes,
)
from busbw.foreign.logs.row_words import BoolArray, FloatArray, Printed
from busbw.foreign.logs.table import Table, Timing

Bounds = tuple[FloatArray, FloatArray]
# Intervals are widened by this much, relatively, against the rounding of their own arithmetic.
_SLACK: Final = 1e-9
_JUDGED: Final = (DOUBLE | SHARED | PLAIN) - UNEVEN - {"permute"}
# From here on, no tool prints enough digits to separate a factor from its limit (2 or 1).
_MOST_RANKS: Final = 10_000_000


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
    low, high = low[usable] * (1 - _SLACK), high[usable] * (1 + _SLACK)
    if not len(low):
        return None
    ends = np.concatenate([low, high])
    steps = np.concatenate([np.ones(len(low), np.int64), -np.ones(len(high), np.int64)])
    order = np.lexsort((-steps, ends))  # beginnings before ends: touching intervals agree
    depth = np.cumsum(steps[order])
    best = int(np.argmax(depth))
    return Consensus(float(ends[order[best]]), float(ends[order[best + 1]]), int(depth[best]), len(low))


def agreeing(low: FloatArray, high: FloatArray, lowest: float, highest: float) -> BoolArray:
    """Rows that allow a value of the interval, and rows that say nothing."""
    with np.errstate(invalid="ignore"):
        against = (low * (1 - _SLACK) > highest) | (high * (1 + _SLACK) < lowest)
    return ~against


def joined(bounds: Sequence[Bounds]) -> Bounds:
    """Those of all placements, one behind the other."""
    return np.concatenate([low for low, _ in bounds]), np.concatenate([high for _, high in bounds])


def _unknown(timing: Timing) -> Bounds:
    rows = len(timing.time_us.value)
    return np.full(rows, math.nan), np.full(rows, math.nan)


def factor_bounds(timing: Timing) -> Bounds:
    """The range of busbw / algbw that the digits of each row allow; NaN if a row says nothing."""
    if timing.algbw is None or timing.busbw is None:
        return _unknown(timing)
    usable = (timing.algbw.low > 0) & np.isfinite(timing.busbw.value)  # one rank: a busbw of 0
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(usable, timing.busbw.low / timing.algbw.high, math.nan)
        high = np.where(usable, timing.busbw.high / timing.algbw.low, math.nan)
    return low, high


def scale_bounds(table: Table, timing: Timing) -> Bounds:
    """The ratio algbw / (size / time) of each row, in decimal GB/s: what its digits allow."""
    return _over_size_and_time(table, timing, timing.algbw, 1.0)


def _over_size_and_time(table: Table, timing: Timing, printed: Printed | None, unit: float) -> Bounds:
    """A printed bandwidth over size / time; ``unit`` is the size of its GB in 10^9 bytes."""
    if printed is None:
        return _unknown(timing)
    sizes, time = table.sizes.astype(np.float64), timing.time_us
    usable = (printed.value > 0) & (sizes > 0) & (time.low > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        # bytes / us / 1000 are GB/s
        low = np.where(usable, printed.low * unit * time.low * 1e3 / sizes, math.nan)
        high = np.where(usable, printed.high * unit * time.high * 1e3 / sizes, math.nan)
    return low, high


def factor(table: Table, unit: float | None) -> Consensus | None:
    """The factor of busbw on which the rows agree: by busbw / algbw, and by size and time where these are
    good (``unit`` not None).
    """
    bounds = []
    for timing in table.timings:
        low, high = factor_bounds(timing)
        if unit is not None and table.trusted_time:
            other_low, other_high = _over_size_and_time(table, timing, timing.busbw, unit)
            low, high = np.fmax(low, other_low), np.fmin(high, other_high)
        bounds.append((low, high))
    return consensus(*joined(bounds)) if bounds else None


def ranks_of(name: str, found: Consensus | None) -> RankInterval | None:
    """The numbers of ranks for which the operation has this factor; None if it does not depend on them."""
    if found is None or name not in DOUBLE | SHARED:
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
    names, if given. For a tool that prints neither reduction nor root, only the factor is used.
    """
    if not len(table) or table.counts[0] < 0:
        return ()
    names = table.operations or _JUDGED
    return tuple(
        name
        for name in sorted(names.intersection(among) if among else names)
        if (table.operations or _fits_columns(name, table))
        and (found is None or _fits_factor(name, found, scale, table))
    )


def _fits_columns(name: str, table: Table) -> bool:
    reducing = any(word not in ("none", "") for word in table.redops)
    # sendrecv_perf prints the reduction that it was asked for, and reduces nothing.
    if (name in REDUCING) != reducing and name != "sendrecv":
        return False
    if (name in ROOTED) != bool((table.roots >= 0).any()):
        return False
    blocks = _blocks(table)
    return blocks is None or blocks < 1 or (blocks > 1) == (name in BLOCKED)


def _fits_factor(name: str, found: Consensus, scale: Consensus | None, table: Table) -> bool:
    # hypercube moves n - 1 of n blocks: its algbw is less than size / time, as in old versions that of others
    whole = scale is None or scale.contains(1.0) or bool(table.operations)
    if name in PLAIN:
        return found.contains(1.0) and whole == (name != "hypercube")
    if not whole and name in SHARED:
        return table.formulas == "old" and found.contains(1.0)
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
