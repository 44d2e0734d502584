"""The unit of a table's bandwidths, and rows whose bandwidth does not follow from size and time: damaged in
the log, not measured so. Labels, roots and the order of rows are taken as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from busbw.foreign.logs.operations import PLAIN, UNEVEN
from busbw.foreign.logs.row_words import FloatArray
from busbw.foreign.logs.solve import Consensus, agreeing, consensus, joined, scale_bounds
from busbw.foreign.logs.table import Table
from busbw.model.record import DAMAGED, ImportFinding

# A share of the rows must agree before the others are called damaged.
_ENOUGH: Final = 0.5


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
    operation = table.operation or assumed
    # The algbw of uneven operations is that of the busiest rank, whose bytes no row has.
    if not table.trusted_time or operation in UNEVEN:
        return Checked(table, None, _gb(table, None))
    bounds = [scale_bounds(table, timing) for timing in table.timings]
    scale = _likely(table, operation, *joined(bounds))
    if scale is not None:
        good = np.logical_and.reduce([agreeing(*each, scale.low, scale.high) for each in bounds])
        table = table.keep(good).with_findings(
            *(
                ImportFinding(DAMAGED, "left out: algbw is not size / time", line)
                for line in table.lines[~good].tolist()
            )
        )
    elif np.isfinite(joined(bounds)[0]).any():
        text = "algbw does not follow from size and time; bandwidths here are computed from size and time"
        table = table.with_findings(ImportFinding("contradiction", text, table.first_line))
    return Checked(table, scale, _gb(table, scale))


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
    if found is None or found.agree < _ENOUGH * found.judged:
        return None
    # Old all_gather and hypercube: n - 1 of n blocks. Nothing else makes algbw smaller than size / time.
    is_whole = operation == "all_reduce" or operation in PLAIN - {"hypercube"}
    return found if not is_whole and found.low < 1 and found.high >= 0.5 else None


def _gb(table: Table, scale: Consensus | None) -> float | None:
    """The size of the printed GB in 10^9 bytes."""
    if len(table.gb_sizes) == 1:
        return table.gb_sizes[0]
    return next((size for size in table.gb_sizes if scale is not None and scale.contains(1 / size)), None)
