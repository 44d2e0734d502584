"""Rows that contradict themselves or all others: damaged in the log, not measured so.

Looked for is what makes a number wrong: a line that is cut, a size that is not count times element, a
bandwidth that does not follow from size and time, columns that are not what the heading calls them, rows that
the printed average has and the table has not. Labels, roots and the order of rows are taken as they are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Final

from busbw.foreign.logs.operations import PLAIN, UNEVEN, is_known, is_reduction, type_bytes
from busbw.foreign.logs.solve import Bounds, Consensus, agrees, consensus, factor_bounds, scale_bounds
from busbw.foreign.logs.table import Side, Table
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

    @cached_property
    def is_in_its_unit(self) -> bool:
        """Whether algbw is size / time, in GB of that size."""
        return self.gb is not None and self.scale is not None and self.scale.contains(1 / self.gb)


def check(table: Table, assumed: str = "") -> Checked:
    """Find damaged rows, and what the units of the table are. ``assumed`` is the operation by the user or the
    path, where the table itself names none.
    """
    if not len(table):
        return Checked(table, None, None)
    operation = table.operation or assumed
    is_uneven = operation in UNEVEN  # their algbw is that of the busiest rank, whose bytes no row has
    scales = [[scale_bounds(row, side, side.algbw) for side in row.sides] for row in table.rows]
    scale = _scale(table, operation, list(chain.from_iterable(scales))) if table.trusted_time else None
    reasons: dict[int, str] = {}
    if not is_uneven:  # nccom-test rounds what it was asked for
        _note(reasons, _odd_counts(table), "size is not count times the size of an element")
    for place, row in enumerate(table.rows):
        if row.misprinted:
            _note(reasons, [place], row.misprinted)
        if not all(map(_is_timed, row.sides)):
            _note(reasons, [place], "a time is not positive")
    lost = _untimed(table, reasons)
    if scale is not None and not is_uneven:
        _note(reasons, _against(scales, scale), "algbw is not size / time")
    _note(reasons, _misaligned(table, scales, scale), "a column is shorter or longer than in the other rows")
    _note(reasons, _odd_factors(table), "busbw / algbw is not that of the other rows")
    good = tuple(row for place, row in enumerate(table.rows) if place not in reasons)
    kept = replace(table, rows=good).with_findings(*_damaged(table, reasons), *lost)
    says_scale = any(math.isfinite(low) for bounds in scales for low, _ in bounds)
    if scale is None and table.trusted_time and not is_uneven and says_scale:
        text = "algbw does not follow from size and time; bandwidths here are computed from size and time"
        kept = kept.with_findings(ImportFinding("contradiction", text, table.first_line))
    return Checked(kept.with_findings(*foreign(kept)), scale, _gb(table, scale))


def _note(reasons: dict[int, str], places: Iterable[int], why: str) -> None:
    for place in places:
        reasons.setdefault(place, why)


def _damaged(table: Table, reasons: dict[int, str]) -> list[ImportFinding]:
    found = [
        ImportFinding(DAMAGED, f"left out: {why}", table.rows[place].line)
        for place, why in sorted(reasons.items())
    ]
    if len(found) > _MOST_FINDINGS:
        more = f"{len(found) - _MOST_FINDINGS} more damaged rows"
        found = [*found[:_MOST_FINDINGS], ImportFinding(DAMAGED, more)]
    return found


# ---- a row alone -------------------------------------------------------------------------------------------


def _odd_counts(table: Table) -> list[int]:
    """Rows whose size is not as many times count and element as that of the others."""
    widths = [type_bytes(row.dtype) or 0 for row in table.rows]
    blocks = {}  # -1 where it is no whole number of times
    for place, (row, width) in enumerate(zip(table.rows, widths, strict=True)):
        if row.count > 0 and width:
            times, rest = divmod(row.size, row.count * width)
            blocks[place] = -1 if rest else times
    if not blocks:
        return []
    votes = Counter(blocks.values())
    usual = max(sorted(votes), key=votes.__getitem__)
    if votes[usual] / len(blocks) < _ENOUGH:
        return []
    alone = len(blocks) <= _FEW_ROWS  # so few rows cannot show that the tool counts otherwise
    odd = [place for place, times in blocks.items() if times != usual or (alone and times < 0)]
    # Sizes below one block a rank are printed as 0 with a count of 0; a row of 0 elements has no size either.
    pairs = enumerate(zip(table.rows, widths, strict=True))
    return odd + [place for place, (row, width) in pairs if row.count == 0 and row.size > 0 and width]


def _is_timed(side: Side) -> bool:
    """Whether it has a time, or the row leaves this placement out."""
    time = side.time_us.value
    if math.isnan(time):
        return math.isnan(side.algbw.value)
    return 0 < time < math.inf


def _untimed(table: Table, reasons: dict[int, str]) -> list[ImportFinding]:
    """Note rows whose time is not a number; say it of a placement without any time, whose rows have the other
    one. Tables that busbw exported have such times on purpose; entries of one placement are read one by one.
    """
    lost: list[ImportFinding] = []
    if "time_is" in table.header or table.sides_apart:
        return lost
    for index, placement in enumerate(table.placements):
        untimed = [
            place for place, row in enumerate(table.rows) if math.isnan(row.sides[index].time_us.value)
        ]
        if len(table.placements) > 1 and len(untimed) == len(table):
            lost.append(ImportFinding(DAMAGED, f"no row has a time {placement}", table.first_line))
        else:
            _note(reasons, untimed, f"its {placement} time is not a number")
    return lost


def foreign(table: Table) -> list[ImportFinding]:
    """Types and reductions that the catalogue does not have: kept as they are, and said."""
    types = {row.dtype for row in table.rows if row.dtype and type_bytes(row.dtype) is None}
    redops = {row.redop for row in table.rows if not is_reduction(row.redop)}
    return [
        ImportFinding("foreign", f"{kind} {word!r} is not one that busbw knows", table.first_line)
        for kind, words in (("type", types), ("reduction", redops))
        for word in sorted(words)
    ]


def _misaligned(table: Table, scales: Sequence[Sequence[Bounds]], scale: Consensus | None) -> list[int]:
    """Rows with a column of another width, where a digit can be lost: not those whose numbers confirm each
    other, nor a word that is the same in all rows.
    """
    words: dict[str, set[object]] = {
        "type": {row.dtype for row in table.rows},
        "redop": {row.redop for row in table.rows},
        "root": {row.root for row in table.rows},
    }
    same = {name for name, distinct in words.items() if len(distinct) == 1}

    def is_confirmed(place: int, moved: Set[str]) -> bool:
        return (
            scale is not None
            and moved <= _CONFIRMED
            and table.rows[place].count > 0
            and all(high < _CLOSE * low for low, high in scales[place])
            and all(agrees(each, scale.low, scale.high) for each in scales[place])
        )

    odd = [(place, row.misaligned - same) for place, row in enumerate(table.rows)]
    return [place for place, moved in odd if moved and not is_confirmed(place, moved)]


# ---- rows together -----------------------------------------------------------------------------------------


def _against(bounds: Iterable[Iterable[Bounds]], found: Consensus) -> list[int]:
    """Rows of which a placement cannot have the value that the others have."""
    return [
        place
        for place, of_row in enumerate(bounds)
        if not all(agrees(each, found.low, found.high) for each in of_row)
    ]


def _scale(table: Table, operation: str, bounds: Sequence[Bounds]) -> Consensus | None:
    """The scale on which the rows agree."""
    found = _likely(table, operation, bounds)
    follows = table.formulas == "today's" and is_known(operation) and operation != "hypercube"
    if found is None and follows and len(table) <= _FEW_ROWS:
        return Consensus(1.0, 1.0, 0, len(table))  # no majority is needed to say what algbw is
    return found


def _likely(table: Table, operation: str, bounds: Sequence[Bounds]) -> Consensus | None:
    """The unit that most rows allow, where half of them do; else what most rows say, where that can be."""
    judged = [pair for pair in bounds if math.isfinite(pair[0])]
    if not judged:
        return None
    units = [1 / size for size in table.gb_sizes]
    votes = {unit: sum(agrees(pair, unit, unit) for pair in judged) for unit in units}
    unit = max(votes, key=votes.__getitem__)
    if votes[unit] >= _ENOUGH * len(judged):
        return Consensus(unit, unit, votes[unit], len(judged))
    found = consensus(judged)
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


def _odd_factors(table: Table) -> list[int]:
    """Rows whose busbw / algbw is not that of most."""
    bounds = [[factor_bounds(side) for side in row.sides] for row in table.rows]
    found = consensus(chain.from_iterable(bounds))
    if found is None or found.judged <= _FEW_ROWS or found.agree < _ENOUGH * found.judged:
        return []
    return _against(bounds, found)
