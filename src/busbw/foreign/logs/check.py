"""Rows that contradict themselves or all others, and what a log does not state, from its printed digits.

Every printed number is an interval of half a unit of its last digit, so every row gives an interval for the
factor busbw / algbw, hence for the number of ranks; all rows together a narrower one.

Looked for is what makes a number wrong: a line that is cut, a size that is not count times element, a
bandwidth that does not follow from size and time, rows that the printed average has and the table has not.
Labels, roots and the order of rows are taken as they are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from busbw.foreign.logs.operations import (
    BLOCKED,
    DOUBLE,
    KNOWN,
    PLAIN,
    REDUCING,
    REDUCTIONS,
    ROOTED,
    SHARED,
    TYPE_BYTES,
    UNEVEN,
)
from busbw.foreign.logs.row_words import NO_REDUCTION, Number
from busbw.foreign.logs.table import ENOUGH, Consensus, RankInterval, Row, Side, Table
from busbw.model.collective import Placement
from busbw.model.record import DAMAGED, ImportFinding

Bounds = tuple[float, float]  # the ends of an interval; NaN where nothing is said
_UNKNOWN: Final = (math.nan, math.nan)
# Intervals are widened by this much, relatively, against the rounding of their own arithmetic.
_SLACK: Final = 1e-9
_JUDGED: Final = KNOWN - {"permute"}
# From here on, no tool prints enough digits to separate a factor from its limit (2 or 1).
_MOST_RANKS: Final = 10_000_000
# So few cannot outvote each other; of more, all wrong in the same way are another formula, not damage.
_FEW_ROWS: Final = 2
_MOST_FINDINGS: Final = 100
_NO_OLD_FORMULA: Final = (PLAIN - {"hypercube"}) | {"all_reduce"}


def check(table: Table, assumed: str = "") -> Table:
    """The table without its damaged rows, and with the scale of its bandwidths. ``assumed`` is the operation
    by the user or the path, where the table itself names none.
    """
    if not table.rows:
        return table
    operation, rows = table.operation or assumed, list(enumerate(table.rows))
    is_uneven = operation in UNEVEN  # their algbw is that of the busiest rank, whose bytes no row has
    scales = [[scale_bounds(row, side, side.algbw) for side in row.sides] for row in table.rows]
    said = [pair for of_row in scales for pair in of_row if math.isfinite(pair[0])]
    scale = _scale(table, operation, said) if table.trusted_time else None
    factors = [[factor_bounds(side) for side in row.sides] for row in table.rows]
    untimed = _untimed(table)
    # A placement without any time is said once: its rows have the other one.
    lost = [side for side, places in untimed if len(untimed) > 1 and len(places) == len(table.rows)]
    odd: list[tuple[str, Iterable[int]]] = [
        ("size is not count times the size of an element", () if is_uneven else _odd_counts(table)),
        ("a time is not positive", [place for place, row in rows if not all(map(_is_timed, row.sides))]),
        *((f"its {side} time is not a number", places) for side, places in untimed if side not in lost),
        ("algbw is not size / time", () if is_uneven else _against(scales, scale)),
        ("the row is shorter than the others", _shorter(table)),
        ("busbw / algbw is not that of the other rows", _against(factors, _usual_factor(factors))),
    ]
    reasons: dict[int, str] = {}
    for why, places in odd:
        reasons.update((place, why) for place in places if place not in reasons)
    kept = replace(table, rows=tuple(row for place, row in rows if place not in reasons), scale=scale)
    findings = _damaged(table, reasons)
    findings += [ImportFinding(DAMAGED, f"no row has a time {side}", table.first_line) for side in lost]
    if scale is None and table.trusted_time and not is_uneven and said:
        text = "algbw does not follow from size and time; bandwidths here are computed from size and time"
        findings.append(ImportFinding("contradiction", text, table.first_line))
    return kept.with_findings(*findings, *foreign(kept))


def _damaged(table: Table, reasons: dict[int, str]) -> list[ImportFinding]:
    found = [
        ImportFinding(DAMAGED, f"left out: {why}", table.rows[place].line)
        for place, why in sorted(reasons.items())
    ]
    if len(found) > _MOST_FINDINGS:
        more = f"{len(found) - _MOST_FINDINGS} more damaged rows"
        found = [*found[:_MOST_FINDINGS], ImportFinding(DAMAGED, more)]
    return found


def foreign(table: Table) -> list[ImportFinding]:
    """Types and reductions that the catalogue does not have: kept as they are, and said."""
    types = {row.dtype for row in table.rows if row.dtype and row.dtype not in TYPE_BYTES}
    redops = {row.redop for row in table.rows if row.redop not in REDUCTIONS}
    return [
        ImportFinding("foreign", f"{kind} {word!r} is not one that busbw knows", table.first_line)
        for kind, words in (("type", types), ("reduction", redops))
        for word in sorted(words)
    ]


# ---- a row alone -------------------------------------------------------------------------------------------


def _odd_counts(table: Table) -> list[int]:
    """Rows whose size is not as many times count and element as that of the others."""
    found = ((place, times_count(row)) for place, row in enumerate(table.rows))
    # -1 where it is no whole number of times
    blocks = {place: -1 if times[1] else times[0] for place, times in found if times is not None}
    votes = Counter(blocks.values())
    usual = max(sorted(votes), key=votes.__getitem__, default=0)
    if not blocks or votes[usual] / len(blocks) < ENOUGH:
        return []
    alone = len(blocks) <= _FEW_ROWS  # so few rows cannot show that the tool counts otherwise
    odd = [place for place, times in blocks.items() if times != usual or (alone and times < 0)]
    # Sizes below one block a rank are printed as 0 with a count of 0; a row of 0 elements has no size either.
    rows = enumerate(table.rows)
    return odd + [place for place, row in rows if row.count == 0 and row.size > 0 and row.dtype in TYPE_BYTES]


def _is_timed(side: Side) -> bool:
    """Whether it has a time, or the row leaves this placement out."""
    time = side.time_us.value
    if math.isnan(time):
        return math.isnan(side.algbw.value)
    return 0 < time < math.inf


def _untimed(table: Table) -> list[tuple[Placement, list[int]]]:
    """The rows of each placement whose time is not a number. Tables that busbw exported have such times on
    purpose; entries of one placement are read one by one.
    """
    if "time_is" in table.header or table.sides_apart:
        return []
    return [
        (side, [place for place, row in enumerate(table.rows) if math.isnan(row.sides[index].time_us.value)])
        for index, side in enumerate(table.placements)
    ]


def _shorter(table: Table) -> list[int]:
    """Rows whose beginning is lost, and with it digits of the size, where no count contradicts that: in a
    table with aligned columns, rows of unlike sizes are equally long.
    """
    widths = Counter(line.width for line in table.lines)
    usual = max(widths, key=widths.__getitem__, default=0)
    is_aligned = len({len(line.words[0]) for line in table.lines if line.width == usual}) > 1
    if "count" in table.layout.names or not is_aligned or widths[usual] < ENOUGH * len(table.lines):
        return []
    return [place for place, line in enumerate(table.lines) if 0 < line.width < usual]


# ---- rows together -----------------------------------------------------------------------------------------


def _against(bounds: Iterable[Iterable[Bounds]], found: Consensus | None) -> list[int]:
    """Rows of which a placement cannot have the value that the others have."""
    return [
        place
        for place, of_row in enumerate(bounds)
        if found is not None and not all(agrees(each, found) for each in of_row)
    ]


def _scale(table: Table, operation: str, said: Sequence[Bounds]) -> Consensus | None:
    """The scale on which the rows agree: the unit that most allow, where half of them do; else what most rows
    say, where that can be.
    """
    units = [Consensus(1 / size, 1 / size, 0, len(said)) for size in table.tool.gb_sizes]
    votes = {unit: sum(agrees(pair, unit) for pair in said) for unit in units}
    unit = max(votes, key=votes.__getitem__)
    if said and votes[unit] >= ENOUGH * len(said):
        return unit
    found = consensus(said)
    if found is not None and found.is_usual and operation not in _NO_OLD_FORMULA:
        # Old all_gather and hypercube: n - 1 of n blocks. Nothing else makes algbw smaller than size / time.
        ranks = ranks_of("all_gather", found)
        if ranks is not None and ranks.high != 1:
            return found
    return None


def _usual_factor(bounds: Iterable[Iterable[Bounds]]) -> Consensus | None:
    """The busbw / algbw of most rows."""
    found = consensus(chain.from_iterable(bounds))
    return found if found is not None and found.judged > _FEW_ROWS and found.is_usual else None


# ---- solving -----------------------------------------------------------------------------------------------


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
    names = table.tool.operations or _with_such_columns(table)
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
    whole = scale is None or scale.contains(1.0) or bool(table.tool.operations)
    if name in PLAIN:
        return found.contains(1.0) and whole == (name != "hypercube")
    if not whole and name in SHARED:
        return table.formulas == "old" and found.contains(1.0)
    ranks = ranks_of(name, found)
    blocks = block_ranks(table, name)
    return ranks is not None and (blocks is None or ranks.contains(blocks))


def has_counts(table: Table) -> bool:
    """Whether its rows have a column of counts."""
    return bool(table.rows) and table.rows[0].count >= 0


def times_count(row: Row) -> tuple[int, int] | None:
    """How many times its count of elements the size of a row has, and the bytes that are left over; None
    without a count, or where the type is foreign.
    """
    width = TYPE_BYTES.get(row.dtype)
    return divmod(row.size, row.count * width) if row.count > 0 and width else None


def _blocks(table: Table) -> int:
    """How many times the count a size holds; 0 where rows differ, or a type is foreign."""
    if not all(row.dtype in TYPE_BYTES for row in table.rows):
        return 0
    blocks = {times[0] for times in map(times_count, table.rows) if times is not None}
    return blocks.pop() if len(blocks) == 1 else 0


def block_ranks(table: Table, name: str) -> int | None:
    """The number of ranks that size and count say where buffers hold a block for every rank."""
    blocks = _blocks(table) if name in BLOCKED and has_counts(table) else 0
    return blocks if blocks > 1 else None
