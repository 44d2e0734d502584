"""Rows that contradict themselves or all others: damaged in the log, not measured so.

Only what the digits rule out is called damaged: a changed digit of a time whose bandwidth is printed as 0.00
cannot be found by anybody.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from busbw.importers.columns import NO_REDUCTION, BoolArray
from busbw.importers.headings import NCCL_TESTS, NCCOM_TEST, OSU, RCCL_TESTS
from busbw.importers.operations import DOUBLE, PLAIN, SHARED, UNEVEN
from busbw.importers.osu import type_bytes
from busbw.importers.printed import FloatArray, Printed
from busbw.importers.roots import odd_roots
from busbw.importers.solve import Consensus, agreeing, consensus, factor_bounds, scale_bounds
from busbw.importers.spreads import odd_rates, unordered
from busbw.importers.table import GIB_PER_GB, Table
from busbw.model.collective import Placement
from busbw.model.datatype import REDUCE_OPS
from busbw.model.record import ImportFinding

# A share of the rows must agree before the others are called damaged.
_ENOUGH: Final = 0.5
_ALIGNED_ROWS: Final = 4
# So few cannot outvote each other; of more, all wrong in the same way are another formula, not damage.
_FEW_ROWS: Final = 2
_MOST_FINDINGS: Final = 100
# nccl-tests 2.0 prints ms, without saying so.
_SECOND_UNITS: Final = {1.0: 1.0, 1e-3: 1e3}


@dataclass(eq=False)  # not frozen, for the time that takes: see ``Body``
class Checked:
    """A table without its damaged rows. ``scale`` is algbw over size / time, None where rows cannot tell or
    contradict each other; ``gb`` is the size of its GB in 10^9 bytes (None where undecided). ``factor`` is
    that of busbw on which the rows agree, where it is known already.
    """

    table: Table
    scale: Consensus | None
    gb: float | None
    factor: Consensus | None = None


def check(table: Table, assumed: str = "") -> Checked:
    """Find damaged rows, and what the units of the table are. ``assumed`` is the operation by the user or the
    path, where the table itself names none.
    """
    reasons: dict[int, str] = {}
    if not len(table):
        return Checked(table, None, None)
    named = table.operation
    table = replace(table, operation=named or assumed)
    _note(reasons, _misplaced(table), "the line is shorter or longer than its neighbours")
    _note(reasons, _odd_counts(table), "size is not count times the size of an element")
    _note(reasons, _odd_words(table), "a word that no other row has")
    _note(reasons, _denied_wrong(table), "the line below the table says that nothing was wrong")
    _note(reasons, odd_roots(table), "its root is none that the other rows, or this operation, can have")
    _note(reasons, ~_positive(table), "a time is not positive")
    lost = []
    for placement, rows in _untimed(table):
        if len(table.timings) > 1 and rows.all():  # its rows have the other placement
            lost.append(ImportFinding("damaged", f"no row has a time {placement}", table.first_line))
        else:
            _note(reasons, rows, "its time is no number")
    _note(reasons, unordered(table), "minimum, mean, percentiles and maximum are not in this order")
    _note(reasons, odd_rates(table), "Mbytes/sec is not size / time")
    table = _in_microseconds(table)
    scale = None
    if table.trusted_time:
        scale, against = _scale(table)
        if table.operation not in UNEVEN:  # their algbw is that of the busiest rank, whose bytes no row tells
            _note(reasons, against, "algbw is not size / time")
    _note(reasons, _odd_factors(table), "busbw / algbw is not that of the other rows")
    good = np.ones(len(table), bool)
    good[list(reasons)] = False
    kept = table.keep(good).with_findings(*_damaged(table, reasons), *lost)
    if scale is None and table.trusted_time and table.operation not in UNEVEN and _judgeable(table):
        text = "algbw does not follow from size and time; bandwidths were made from size and time"
        kept = kept.with_findings(ImportFinding("contradiction", text, table.first_line))
    kept = replace(kept, operation=named).with_findings(*foreign(kept))
    return Checked(kept, scale, _gb(table, scale))


def _note(reasons: dict[int, str], rows: BoolArray, why: str) -> None:
    for row in np.flatnonzero(rows):
        reasons.setdefault(int(row), why)


def _damaged(table: Table, reasons: dict[int, str]) -> list[ImportFinding]:
    rows = sorted(reasons)
    found = [ImportFinding("damaged", f"left out: {reasons[row]}", int(table.lines[row])) for row in rows]
    if len(found) > _MOST_FINDINGS:
        more = f"{len(found) - _MOST_FINDINGS} more damaged rows"
        found = [*found[:_MOST_FINDINGS], ImportFinding("damaged", more)]
    return found


def _misplaced(table: Table) -> BoolArray:
    """Rows of another length than all others, where the columns of the table are aligned: a word lost or won
    characters. A longer line is in order where a word is too long for its column.
    """
    widths = table.widths
    known = widths > 0
    none = np.zeros(len(table), bool)
    if not known.any():
        return none
    values, counts = np.unique(widths[known], return_counts=True)
    usual, share = int(values[counts.argmax()]), counts.max() / known.sum()
    if known.sum() < _ALIGNED_ROWS:  # too few to outvote each other: the heading decides, where one fits it
        usual, share = table.heading_width, float((widths[known] == table.heading_width).any())
    if share < 0.7:
        return none  # not aligned at all
    return known & ((widths < usual) | ((widths > usual) & ~_has_long_word(table)))


def _has_long_word(table: Table) -> BoolArray:
    long = (table.sizes >= 10**12) | (table.counts >= 10**12)
    if table.tool == OSU and "own_collective" in table.header:  # OSU itself has no sizes of more digits
        long |= table.sizes >= 10**10
    for timing in table.timings:
        long |= timing.time_us.value >= 10**7
        for bandwidth in (timing.algbw, timing.busbw):
            if bandwidth is not None:
                long |= bandwidth.value >= 10**4
        if timing.wrong is not None:
            long |= timing.wrong >= 10**6
    return long


def _odd_counts(table: Table) -> BoolArray:
    none = np.zeros(len(table), bool)
    widths = {dtype: type_bytes(dtype) or 0 for dtype in set(table.types)}
    element = np.array([widths[dtype] for dtype in table.types], np.int64)
    judged = (table.counts > 0) & (element > 0)
    if not judged.any():
        return none
    whole = np.where(judged, table.counts * element, 1)
    blocks = np.where(table.sizes % whole == 0, table.sizes // whole, -1)
    values, counts = np.unique(blocks[judged], return_counts=True)
    if table.operation in UNEVEN:  # nccom-test rounds what it was asked for
        return none
    usual = int(values[counts.argmax()])
    if counts.max() / judged.sum() < _ENOUGH:
        return none
    alone = int(judged.sum()) <= _FEW_ROWS  # whose majority does not tell that the tool counts otherwise
    no_size = (table.counts == 0) & (table.sizes > 0) & (element > 0)
    # Sizes below one block a rank are printed as 0 with a count of 0; a row of 0 elements has no size either.
    odd: BoolArray = (judged & ((blocks != usual) | (alone & (blocks < 0)))) | no_size
    return odd


def _odd_words(table: Table) -> BoolArray:
    """A single unknown type or reduction among rows that repeat known ones."""
    odd = np.zeros(len(table), bool)
    for words, is_known in (
        (table.types, lambda word: type_bytes(word) is not None),
        (table.redops, is_reduction),
    ):
        if len(set(words)) == 1:
            continue
        counts = Counter(words)
        repeated = any(count > 1 and is_known(word) for word, count in counts.items())
        lonely = {word for word, count in counts.items() if count == 1 and not is_known(word)}
        if repeated and lonely:
            odd |= np.array([word in lonely for word in words], bool)
    return odd | _lost_reductions(table)


def _lost_reductions(table: Table) -> BoolArray:
    """Rows without a reduction among more rows with one: no test prints both."""
    if len(set(table.redops)) == 1:
        return np.zeros(len(table), bool)
    none = np.array([word == NO_REDUCTION for word in table.redops], bool)
    return none if 0 < none.sum() < len(none) / 2 else np.zeros(len(none), bool)


def foreign(table: Table) -> list[ImportFinding]:
    """Types and reductions that the catalogue does not have: kept as they are, and said."""
    types = {word for word in table.types if word and type_bytes(word) is None}
    redops = {word for word in table.redops if word and not is_reduction(word)}
    return [
        ImportFinding("foreign", f"{kind} {word!r} is not one that busbw knows", table.first_line)
        for kind, words in (("type", types), ("reduction", redops))
        for word in sorted(words)
    ]


_REDUCTIONS: Final = {NO_REDUCTION, *(word for row in REDUCE_OPS for word in (row.name, *row.aliases))}


def is_reduction(word: str) -> bool:
    """Whether the word is a reduction that we know, or ``none``."""
    return word in _REDUCTIONS


def _denied_wrong(table: Table) -> BoolArray:
    """Rows with wrong elements, where the line below the table counts none in all rows."""
    odd = np.zeros(len(table), bool)
    for timing in table.timings if table.out_of_bounds == 0 else ():
        if timing.wrong is not None:
            odd |= timing.wrong > 0
    return odd


def _positive(table: Table) -> BoolArray:
    good = np.ones(len(table), bool)
    for timing in table.timings:
        absent = np.isnan(timing.time_us.value)  # a placement that a JSON report leaves out
        if timing.algbw is not None:
            absent &= np.isnan(timing.algbw.value)
        good &= absent | (np.isfinite(timing.time_us.value) & (timing.time_us.value > 0))
    return good


def _untimed(table: Table) -> list[tuple[Placement, BoolArray]]:
    """For each placement, the rows whose time is ``nan`` though nobody says why, as our own exports do."""
    found = []
    for timing in table.timings if "own_collective" not in table.header else ():
        untimed = np.isnan(timing.time_us.value)
        for row in np.flatnonzero(untimed).tolist():
            untimed[row] = (int(table.lines[row]), timing.placement) not in table.outcomes
        found.append((timing.placement, untimed))
    return found


def _in_microseconds(table: Table) -> Table:
    """Times of the first nccl-tests are in ms, and no line says so: size and algbw do."""
    low, high = _joined([scale_bounds(timing, table.sizes.astype(np.float64)) for timing in table.timings])
    judged = np.isfinite(low)
    if 2 * int((judged & agreeing(low, high, 1.0, 1.0)).sum()) >= int(judged.sum()):
        return table  # as nearly always; a consensus of a long table takes as long as reading it
    found = consensus(low, high)
    if found is None or found.contains(1.0) or not found.contains(1e-3):
        return table
    timings = tuple(
        replace(timing, time_us=Printed(timing.time_us.value * 1e3, timing.time_us.half * 1e3))
        for timing in table.timings
    )
    text = "times are in ms: size / algbw says so"
    table = replace(table, body=table.body.with_columns(timings=timings))
    return table.with_findings(ImportFinding("unit", text, table.first_line))


def _joined(bounds: Sequence[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    return np.concatenate([low for low, _ in bounds]), np.concatenate([high for _, high in bounds])


def _judgeable(table: Table) -> bool:
    low, _ = _joined([scale_bounds(timing, table.sizes.astype(np.float64)) for timing in table.timings])
    return bool(np.isfinite(low).any())


def _scale(table: Table) -> tuple[Consensus | None, BoolArray]:
    """The scale on which the rows agree, and the rows against it."""
    sizes = table.sizes.astype(np.float64)
    bounds = [scale_bounds(timing, sizes) for timing in table.timings]
    low, high = _joined(bounds)
    found = _likely(table, low, high)
    if found is None and _follows(table) and len(table) <= _FEW_ROWS:
        found = Consensus(1.0, 1.0, 0, len(table))  # no majority is needed to say what algbw is
    against = np.zeros(len(table), bool)
    if found is None:
        return None, against
    for row_low, row_high in bounds:
        against |= ~agreeing(row_low, row_high, found.low, found.high)
    return found, against


def _follows(table: Table) -> bool:
    """Whether algbw is size / time by the tool's sources, whatever the rows say."""
    known = (DOUBLE | SHARED | PLAIN) - UNEVEN - {"hypercube"}
    return table.tool in (NCCL_TESTS, RCCL_TESTS) and not table.old_formulas and table.operation in known


def _likely(table: Table, low: FloatArray, high: FloatArray) -> Consensus | None:
    """The unit that most rows allow, where half of them do; else what most rows say, where that can be."""
    judged = np.isfinite(low)
    if not judged.any():
        return None
    units = (1.0, 1 / GIB_PER_GB) if table.tool == NCCOM_TEST else (1.0,)
    votes = {unit: int((judged & agreeing(low, high, unit, unit)).sum()) for unit in units}
    unit = max(units, key=lambda unit: votes[unit])
    if votes[unit] >= _ENOUGH * judged.sum():
        return Consensus(unit, unit, votes[unit], int(judged.sum()))
    found = consensus(low, high)
    if found is None or found.agree < _ENOUGH * found.judged or table.operation in PLAIN - {"hypercube"}:
        return None
    # Old all_gather and hypercube: n - 1 of n blocks. Nothing else makes algbw smaller than size / time.
    ranks = 1 / (1 - found.low) if found.low < 1 else math.inf
    fits = (
        found.high >= 0.5 - 1e-9
        and found.low < 1
        and math.floor(1 / (1 - min(found.high, 1 - 1e-9)) + 1e-6) >= math.ceil(ranks - 1e-6)
    )
    return found if fits and table.operation != "all_reduce" else None


def _gb(table: Table, scale: Consensus | None) -> float | None:
    """The size of the printed GB in 10^9 bytes."""
    if table.tool != NCCOM_TEST:
        return 1.0
    if scale is None:
        return None
    return 1.0 if scale.contains(1.0) else GIB_PER_GB if scale.contains(1 / GIB_PER_GB) else None


def _odd_factors(table: Table) -> BoolArray:
    bounds = [factor_bounds(timing) for timing in table.timings]
    against = np.zeros(len(table), bool)
    sound = [_have_one_factor(low, high) for low, high in bounds]
    if any(sound) and not all(sound):  # columns of one placement are not what the heading calls them
        return ~against
    low, high = _joined(bounds)
    found = consensus(low, high)
    if found is None or found.agree < _ENOUGH * found.judged or found.judged < 3:
        return against
    for row_low, row_high in bounds:
        against |= ~agreeing(row_low, row_high, found.low, found.high)
    return against


def _have_one_factor(low: FloatArray, high: FloatArray) -> bool:
    """Whether the rows of a placement, some of which can tell, have a factor that half of them allow."""
    found = consensus(low, high)
    return found is None or found.judged <= _FEW_ROWS or found.agree >= _ENOUGH * found.judged
