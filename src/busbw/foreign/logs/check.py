"""Rows that contradict themselves or all others: damaged in the log, not measured so.

Looked for is what makes a number wrong: a line that is cut, a size that is not count times element, a
bandwidth that does not follow from size and time, columns that are not what the heading calls them, rows that
the printed average has and the table has not. Labels, roots and the order of rows are taken as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from busbw.foreign.logs.operations import PLAIN, UNEVEN, is_known, is_reduction, type_bytes
from busbw.foreign.logs.row_words import BoolArray, FloatArray
from busbw.foreign.logs.solve import (
    Bounds,
    Consensus,
    agreeing,
    consensus,
    factor_bounds,
    joined,
    scale_bounds,
)
from busbw.foreign.logs.table import Table, Timing
from busbw.model.record import DAMAGED, ImportFinding

# A share of the rows must agree before the others are called damaged.
_ENOUGH: Final = 0.5
# So few cannot outvote each other; of more, all wrong in the same way are another formula, not damage.
_FEW_ROWS: Final = 2
_MOST_FINDINGS: Final = 100
# Columns of which a digit cannot be lost without a contradiction, where the bandwidth has digits enough: any
# lost one before the point changes the number by more than this.
_CONFIRMED: Final = frozenset({"size", "count", "time", "algbw", "busbw"})
_CLOSE: Final = 1.5


@dataclass(frozen=True)
class Checked:
    """A table without its damaged rows. ``scale`` is algbw over size / time, None if the rows do not show it
    or contradict each other; ``gb`` is the size of its GB in 10^9 bytes (None where undecided).
    """

    table: Table
    scale: Consensus | None
    gb: float | None


def check(table: Table, assumed: str = "") -> Checked:
    """Find damaged rows, and what the units of the table are. ``assumed`` is the operation by the user or the
    path, where the table itself names none.
    """
    if not len(table):
        return Checked(table, None, None)
    operation = table.operation or assumed
    reasons: dict[int, str] = {}
    _note_lines(table, operation, reasons)
    lost = _untimed(table, reasons)
    scales = [scale_bounds(table, timing) for timing in table.timings]
    scale = None
    is_uneven = operation in UNEVEN  # their algbw is that of the busiest rank, whose bytes no row has
    if table.trusted_time:
        scale, against = _scale(table, operation, scales)
        if not is_uneven:
            _note(reasons, against, "algbw is not size / time")
    _note(reasons, _misaligned(table, scale), "a column is shorter or longer than in the other rows")
    _note(reasons, _odd_factors(table), "busbw / algbw is not that of the other rows")
    good = np.ones(len(table), bool)
    good[list(reasons)] = False
    kept = table.keep(good).with_findings(*_damaged(table, reasons), *lost)
    if scale is None and table.trusted_time and not is_uneven and np.isfinite(joined(scales)[0]).any():
        text = "algbw does not follow from size and time; bandwidths here are computed from size and time"
        kept = kept.with_findings(ImportFinding("contradiction", text, table.first_line))
    return Checked(kept.with_findings(*foreign(kept)), scale, _gb(table, scale))


def _note(reasons: dict[int, str], rows: BoolArray, why: str) -> None:
    for row in np.flatnonzero(rows):
        reasons.setdefault(int(row), why)


def _damaged(table: Table, reasons: dict[int, str]) -> list[ImportFinding]:
    rows = sorted(reasons)
    found = [ImportFinding(DAMAGED, f"left out: {reasons[row]}", int(table.lines[row])) for row in rows]
    if len(found) > _MOST_FINDINGS:
        more = f"{len(found) - _MOST_FINDINGS} more damaged rows"
        found = [*found[:_MOST_FINDINGS], ImportFinding(DAMAGED, more)]
    return found


# ---- a row alone -------------------------------------------------------------------------------------------


def _note_lines(table: Table, operation: str, reasons: dict[int, str]) -> None:
    """Note rows that are damaged by themselves."""
    if operation not in UNEVEN:  # nccom-test rounds what it was asked for
        _note(reasons, _odd_counts(table), "size is not count times the size of an element")
    for row, line in enumerate(table.lines.tolist()):
        if line in table.misprinted:
            reasons.setdefault(row, table.misprinted[line])
    for timing in table.timings:
        _note(reasons, ~_is_timed(timing), "a time is not positive")


def _odd_counts(table: Table) -> BoolArray:
    """Rows whose size is not as many times count and element as that of the others."""
    widths = {dtype: type_bytes(dtype) or 0 for dtype in set(table.types)}
    element = np.array([widths[dtype] for dtype in table.types], np.int64)
    judged = (table.counts > 0) & (element > 0)
    if not judged.any():
        return np.zeros(len(table), bool)
    whole = np.where(judged, table.counts * element, 1)
    blocks = np.where(table.sizes % whole == 0, table.sizes // whole, -1)
    values, counts = np.unique(blocks[judged], return_counts=True)
    usual = int(values[counts.argmax()])
    if counts.max() / judged.sum() < _ENOUGH:
        return np.zeros(len(table), bool)
    alone = int(judged.sum()) <= _FEW_ROWS  # so few rows cannot show that the tool counts otherwise
    # Sizes below one block a rank are printed as 0 with a count of 0; a row of 0 elements has no size either.
    no_size = (table.counts == 0) & (table.sizes > 0) & (element > 0)
    odd: BoolArray = (judged & ((blocks != usual) | (alone & (blocks < 0)))) | no_size
    return odd


def _is_timed(timing: Timing) -> BoolArray:
    """Rows with a time, and those that leave this placement out."""
    time = timing.time_us.value
    absent = np.isnan(time)
    if timing.algbw is not None:
        absent &= np.isnan(timing.algbw.value)
    good: BoolArray = absent | (np.isfinite(time) & (time > 0))
    return good


def _untimed(table: Table, reasons: dict[int, str]) -> list[ImportFinding]:
    """Note rows whose time is not a number; say it of a placement without any time, whose rows have the other
    one. Tables that busbw exported have such times on purpose; entries of one placement are read one by one.
    """
    lost: list[ImportFinding] = []
    for timing in () if "time_is" in table.header or table.sides_apart else table.timings:
        untimed: BoolArray = np.isnan(timing.time_us.value)
        if len(table.timings) > 1 and untimed.all():
            lost.append(ImportFinding(DAMAGED, f"no row has a time {timing.placement}", table.first_line))
        else:
            _note(reasons, untimed, f"its {timing.placement} time is not a number")
    return lost


def foreign(table: Table) -> list[ImportFinding]:
    """Types and reductions that the catalogue does not have: kept as they are, and said."""
    types = {word for word in table.types if word and type_bytes(word) is None}
    redops = {word for word in table.redops if not is_reduction(word)}
    return [
        ImportFinding("foreign", f"{kind} {word!r} is not one that busbw knows", table.first_line)
        for kind, words in (("type", types), ("reduction", redops))
        for word in sorted(words)
    ]


def _misaligned(table: Table, scale: Consensus | None) -> BoolArray:
    """Rows with a column of another width, where a digit can be lost: not those whose numbers confirm each
    other, nor a word that is the same in all rows.
    """
    same = {name for name, words in (("type", table.types), ("redop", table.redops)) if len(set(words)) == 1}
    same |= {"root"} if len(set(table.roots.tolist())) == 1 else set()
    confirmed = table.counts > 0
    for timing in table.timings:
        low, high = scale_bounds(table, timing)
        confirmed &= (high < _CLOSE * low) & (agreeing(low, high, scale.low, scale.high) if scale else False)
    return np.array(
        [
            bool(odd := table.misaligned.get(line, frozenset()) - same) and not (odd <= _CONFIRMED and good)
            for line, good in zip(table.lines.tolist(), confirmed.tolist(), strict=True)
        ],
        bool,
    )


# ---- rows together -----------------------------------------------------------------------------------------


def _scale(table: Table, operation: str, bounds: Sequence[Bounds]) -> tuple[Consensus | None, BoolArray]:
    """The scale on which the rows agree, and the rows against it."""
    found = _likely(table, operation, *joined(bounds))
    follows = table.formulas == "today's" and is_known(operation) and operation != "hypercube"
    if found is None and follows and len(table) <= _FEW_ROWS:
        found = Consensus(1.0, 1.0, 0, len(table))  # no majority is needed to say what algbw is
    against = np.zeros(len(table), bool)
    if found is None:
        return None, against
    for low, high in bounds:
        against |= ~agreeing(low, high, found.low, found.high)
    return found, against


def _likely(table: Table, operation: str, low: FloatArray, high: FloatArray) -> Consensus | None:
    """The unit that most rows allow, where half of them do; else what most rows say, where that can be."""
    judged = np.isfinite(low)
    if not judged.any():
        return None
    units = [1 / size for size in table.gb_sizes]
    votes = {unit: int((judged & agreeing(low, high, unit, unit)).sum()) for unit in units}
    unit = max(units, key=lambda unit: votes[unit])
    if votes[unit] >= _ENOUGH * judged.sum():
        return Consensus(unit, unit, votes[unit], int(judged.sum()))
    found = consensus(low, high)
    if found is None or found.agree < _ENOUGH * found.judged or operation in PLAIN - {"hypercube"}:
        return None
    # Old all_gather and hypercube: n - 1 of n blocks. Nothing else makes algbw smaller than size / time.
    ranks = 1 / (1 - found.low) if found.low < 1 else math.inf
    fits = (
        found.high >= 0.5 - 1e-9
        and found.low < 1
        and math.floor(1 / (1 - min(found.high, 1 - 1e-9)) + 1e-6) >= math.ceil(ranks - 1e-6)
    )
    return found if fits and operation != "all_reduce" else None


def _gb(table: Table, scale: Consensus | None) -> float | None:
    """The size of the printed GB in 10^9 bytes."""
    if len(table.gb_sizes) == 1:
        return table.gb_sizes[0]
    return next((size for size in table.gb_sizes if scale is not None and scale.contains(1 / size)), None)


def _odd_factors(table: Table) -> BoolArray:
    """Rows whose busbw / algbw is not that of most."""
    bounds = [factor_bounds(timing) for timing in table.timings]
    against = np.zeros(len(table), bool)
    found = consensus(*joined(bounds))
    if found is None or found.agree == found.judged:  # as nearly always
        return against
    if found.agree < _ENOUGH * found.judged or found.judged <= _FEW_ROWS:
        return against
    for low, high in bounds:
        against |= ~agreeing(low, high, found.low, found.high)
    return against
