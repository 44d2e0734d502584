"""Solve for what a log does not state, from the range that its printed digits allow.

Every printed number is an interval of half a unit of its last digit, so every row gives an interval for the
factor busbw / algbw, hence for the number of ranks; all rows together a narrower one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
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


def agrees(bounds: Bounds, lowest: float, highest: float) -> bool:
    """Whether they allow a value of an interval, or say nothing."""
    low, high = bounds
    return not (low * (1 - _SLACK) > highest or high * (1 + _SLACK) < lowest)


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


def possible_operations(
    table: Table, found: Consensus | None, scale: Consensus | None, among: Collection[str] = ()
) -> tuple[str, ...]:
    """The operations that fit size, count, root, reduction and factor of all rows; only those ``among`` some
    names, if given. For a tool that prints neither reduction nor root, only the factor is used.
    """
    if not _has_counts(table):
        return ()
    names = table.operations or _JUDGED
    return tuple(
        name
        for name in sorted(names.intersection(among) if among else names)
        if (table.operations or _fits_columns(name, table))
        and (found is None or _fits_factor(name, found, scale, table))
    )


def _fits_columns(name: str, table: Table) -> bool:
    reducing = any(row.redop not in (NO_REDUCTION, "") for row in table.rows)
    # sendrecv_perf prints the reduction that it was asked for, and reduces nothing.
    if (name in REDUCING) != reducing and name != "sendrecv":
        return False
    if (name in ROOTED) != any(row.root >= 0 for row in table.rows):
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


def _has_counts(table: Table) -> bool:
    return len(table) > 0 and table.rows[0].count >= 0


def _blocks(table: Table) -> int | None:
    """How many times the count a size holds; None where the type is foreign or rows differ."""
    widths = {row.dtype: type_bytes(row.dtype) or 0 for row in table.rows}
    if 0 in widths.values():
        return None
    blocks = {row.size // (row.count * widths[row.dtype]) for row in table.rows if row.count > 0}
    return blocks.pop() if len(blocks) == 1 else None


def block_ranks(table: Table, name: str) -> int | None:
    """The number of ranks that size and count say where buffers hold a block for every rank."""
    blocks = _blocks(table) if name in BLOCKED and _has_counts(table) else None
    return blocks if blocks is not None and blocks > 1 else None
