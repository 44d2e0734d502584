"""Wrong rows of the old column ``error``: the largest deviation of an element, which the test itself compared
with a limit. Only the line below the table says how many were beyond it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from busbw.importers.body import Timing
from busbw.importers.columns import BoolArray
from busbw.importers.table import Table
from busbw.model.record import ImportFinding
from busbw.model.result import Status

# DeltaMaxValue of nccl-tests 1.0 to 2.11, for each further rank; 1e-200 for all other types.
_LIMITS: Final = {"half": 1e-2, "bfloat16": 1e-2, "float": 1e-5, "double": 1e-12}
_OTHER_LIMIT: Final = 1e-200


def with_wrong_rows(table: Table, ranks: int) -> Table:
    """The table with the rows marked whose deviation is beyond the limit, where the line below does not deny
    that there are such; and with a finding where it counts some that no row shows.

    The deviations of several threads of a process are added up: then they tell nothing.
    """
    if not table.out_of_bounds and table.out_of_bounds is not None:
        return table
    if table.old_formulas and table.header.get("threads", 1) == 1 and ranks > 1:
        timings = tuple(_marked(table, timing, ranks) for timing in table.timings)
        table = replace(table, body=table.body.with_columns(timings=timings))
    shown = any(timing.wrong is not None and (timing.wrong > 0).any() for timing in table.timings)
    shown = shown or any(outcome.status is Status.WRONG for outcome in table.outcomes.values())
    if not table.out_of_bounds or shown or not len(table):
        return table
    text = f"the line below the table counts {table.out_of_bounds} values out of bounds, no row shows which"
    return table.with_findings(ImportFinding("contradiction", text, table.last_line))


def _marked(table: Table, timing: Timing, ranks: int) -> Timing:
    if timing.deviation is None:
        return timing
    limits = np.array([_LIMITS.get(word, _OTHER_LIMIT) for word in table.types])
    beyond: BoolArray = timing.deviation.low > limits * (ranks - 1)
    unknown = np.full(len(table), np.nan) if timing.wrong is None else timing.wrong
    return replace(timing, wrong=np.where(beyond, np.inf, unknown))
