"""Solve for what a log does not state, from the range that its printed digits allow.

Every printed number is an interval of half a unit of its last digit, so every row gives an interval for the
factor busbw / algbw, hence for the number of ranks; all rows together a narrower one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

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
from busbw.foreign.logs.row_words import NO_REDUCTION, Number
from busbw.foreign.logs.table import Row, Side, Table

Bounds = tuple[float, float]  # the ends of an interval; NaN where nothing is said
_UNKNOWN: Final = (math.nan, math.nan)
# Intervals are widened by this much, relatively, against the rounding of their own arithmetic.
_SLACK: Final = 1e-9
# A share of the rows must agree before the others are called damaged.
_ENOUGH: Final = 0.5
_JUDGED: Final = (DOUBLE | SHARED | PLAIN) - UNEVEN - {"permute"}
# From here on, no tool prints enough digits to separate a factor from its limit (2 or 1).
_MOST_RANKS: Final = 10_000_000


class Consensus(NamedTuple):
    """The interval on which most rows agree. ``agree`` of ``judged`` rows have it."""

    low: float
    high: float
    agree: int
    judged: int

    @property
    def is_usual(self) -> bool:
        """Whether half of the rows have it: then the others are called damaged."""
        return self.agree >= _ENOUGH * self.judged

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


def consensus(bounds: Iterable[Bounds]) -> Consensus | None:
    """The interval that lies in most of the given ones; None without any."""
    usable = [pair for pair in bounds if math.isfinite(pair[0]) and pair[0] <= pair[1]]
    if not usable:
        return None
    # Beginnings (-1) stand before ends: touching intervals agree.
    ends = [(low * (1 - _SLACK), -1) for low, _ in usable] + [(high * (1 + _SLACK), 1) for _, high in usable]
    ends.sort()
    depth = most = best = 0
    for place, (_, step) in enumerate(ends):
        depth -= step
        if depth > most:
            most, best = depth, place
    return Consensus(ends[best][0], ends[best + 1][0], most, len(usable))


def agrees(bounds: Bounds, found: Consensus) -> bool:
    """Whether they allow a value of an interval, or say nothing."""
    low, high = bounds
    return not (low * (1 - _SLACK) > found.high or high * (1 + _SLACK) < found.low)


def factor_bounds(side: Side) -> Bounds:
    """The range of busbw / algbw that the digits allow; NaN where they say nothing."""
    if not (side.algbw.low > 0 and math.isfinite(side.busbw.value)):  # one rank: a busbw of 0
        return _UNKNOWN
    return side.busbw.low / side.algbw.high, side.busbw.high / side.algbw.low


def scale_bounds(row: Row, side: Side, bandwidth: Number, unit: float = 1.0) -> Bounds:
    """The ratio of a printed bandwidth and size / time: what the digits allow. ``unit`` is the size of its GB
    in 10^9 bytes.
    """
    time = side.time_us
    if not (bandwidth.value > 0 and row.size > 0 and time.low > 0):
        return _UNKNOWN
    # bytes / us / 1000 are GB/s
    low, high = bandwidth.low * unit * time.low, bandwidth.high * unit * time.high
    return low * 1e3 / row.size, high * 1e3 / row.size


def factor(table: Table, unit: float | None) -> Consensus | None:
    """The factor of busbw on which the rows agree: by busbw / algbw, and by size and time where these are
    good (``unit`` not None).
    """
    bounds = []
    for row in table.rows:
        for side in row.sides:
            both = [factor_bounds(side)]
            if unit is not None and table.trusted_time:
                both.append(scale_bounds(row, side, side.busbw, unit))
            said = [pair for pair in both if not math.isnan(pair[0])] or [_UNKNOWN]
            bounds.append((max(low for low, _ in said), min(high for _, high in said)))
    return consensus(bounds)


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


def possible_operations(table: Table, found: Consensus | None, scale: Consensus | None) -> tuple[str, ...]:
    """The operations that fit size, count, root, reduction and factor of all rows. For a tool that prints
    neither reduction nor root, only the factor is used.
    """
    if not has_counts(table):
        return ()
    names = table.operations or _with_such_columns(table)
    return tuple(name for name in sorted(names) if found is None or _fits_factor(name, found, scale, table))


def _with_such_columns(table: Table) -> list[str]:
    """The operations that have the reduction, the root and the blocks of the rows."""
    reduces = any(row.redop not in (NO_REDUCTION, "") for row in table.rows)
    has_root = any(row.root >= 0 for row in table.rows)
    blocks = _blocks(table)
    return [
        name
        for name in _JUDGED
        # sendrecv_perf prints the reduction that it was asked for, and reduces nothing.
        if ((name in REDUCING) == reduces or name == "sendrecv")
        and (name in ROOTED) == has_root
        and (blocks < 1 or (blocks > 1) == (name in BLOCKED))
    ]


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


def has_counts(table: Table) -> bool:
    """Whether its rows have a column of counts."""
    return len(table) > 0 and table.rows[0].count >= 0


def times_count(row: Row) -> tuple[int, int] | None:
    """How many times its count of elements the size of a row has, and the bytes that are left over; None
    without a count, or where the type is foreign.
    """
    width = type_bytes(row.dtype)
    return divmod(row.size, row.count * width) if row.count > 0 and width else None


def _blocks(table: Table) -> int:
    """How many times the count a size holds; 0 where rows differ, or a type is foreign."""
    if not all(type_bytes(row.dtype) for row in table.rows):
        return 0
    blocks = {times[0] for times in map(times_count, table.rows) if times is not None}
    return blocks.pop() if len(blocks) == 1 else 0


def block_ranks(table: Table, name: str) -> int | None:
    """The number of ranks that size and count say where buffers hold a block for every rank."""
    blocks = _blocks(table) if name in BLOCKED and has_counts(table) else 0
    return blocks if blocks > 1 else None
