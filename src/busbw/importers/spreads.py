"""Numbers of a row that OSU, IMB and -I print beside its time: a minimum, a mean, a maximum, percentiles, and
IMB's Mbytes/sec. They have an order, and the rate follows from size and time: a row against that is damaged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from busbw.importers.body import Timing
from busbw.importers.columns import BoolArray
from busbw.importers.headings import IMB, OSU
from busbw.importers.printed import FloatArray
from busbw.importers.solve import agreeing
from busbw.importers.table import Table
from busbw.units import NS_PER_US

_TIME: Final = "time"
# Reductions over the ranks of the same mean over the repetitions. ``time`` is OSU's Avg Latency, IMB's t_max.
_ORDERS: Final = {OSU: ("min", _TIME, "max"), IMB: ("min", "avg", _TIME)}
_OTHER_ORDER: Final = ("min", "max")
_PERCENTILE: Final = re.compile(r"p(\d+(?:\.\d+)?)")
# Bytes that a benchmark counts for one of its size, by IMB's user guide: what a process sends and receives.
_MESSAGES: Final = {"pingpong": 1.0, "pingping": 1.0, "sendrecv": 2.0, "exchange": 4.0}
# Mbytes are 10^6 bytes since IMB 2018, and were 2^20 before.
_UNITS: Final = (1.0, 1e6 / 2**20)
_ENOUGH: Final = 0.5
_FEW_ROWS: Final = 2


def odd_orders(tool: str, timing: Timing) -> BoolArray | None:
    """Rows whose minimum, mean and maximum, or whose percentiles, are not in this order by more than a unit
    of their last digit; None where there are no two of them.
    """
    odd = None
    if not timing.stats:
        return odd
    slack = 2 * timing.time_us.half * NS_PER_US
    for low, high in _pairs(tool, timing):
        with np.errstate(invalid="ignore"):
            against = low > high + slack
        odd = against if odd is None else odd | against
    return odd


def unordered(table: Table) -> BoolArray:
    """``odd_orders`` of a table. Where that are most rows, its columns mean something else."""
    odd = np.zeros(len(table), bool)
    for timing in table.timings:
        found = odd_orders(table.tool, timing)
        if found is not None and (len(table) <= _FEW_ROWS or found.sum() <= _ENOUGH * len(table)):
            odd |= found
    return odd


def _pairs(tool: str, timing: Timing) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Columns of which no row may have more in the first than in the second."""
    stats, order = timing.stats, _ORDERS.get(tool, _OTHER_ORDER)
    if tool == OSU and "overall" in stats:  # the time of non-blocking operations is that of a part
        order = _OTHER_ORDER
    known = [
        timing.time_us.value * NS_PER_US if name == _TIME else stats[name]
        for name in order
        if name == _TIME or name in stats
    ]
    yield from pairwise(known)
    shares = sorted((float(match[1]), name) for name in stats if (match := _PERCENTILE.fullmatch(name)))
    yield from pairwise(stats[name] for _, name in shares)


def odd_rates(table: Table) -> BoolArray:
    """Rows of IMB whose Mbytes/sec is not what their size and t_max make it."""
    odd = np.zeros(len(table), bool)
    for timing in table.timings:
        if timing.rate is None:
            continue
        low, high = rate_bounds(timing, table.sizes.astype(np.float64))
        judged = int(np.isfinite(low).sum())
        fits = [agreeing(low, high, factor, factor) for factor in factors(table)]
        best = max(fits, key=lambda rows: int(rows.sum()))
        votes = int((best & np.isfinite(low)).sum())
        if votes >= _ENOUGH * judged or (table.operation in _MESSAGES and judged <= _FEW_ROWS):
            odd |= ~best
    return odd


def factors(table: Table) -> tuple[float, ...]:
    """What Mbytes/sec can be, over size / time: of an unknown benchmark, any of those of others."""
    messages = _MESSAGES.get(table.operation)
    counted = sorted(set(_MESSAGES.values())) if messages is None else (messages,)
    return tuple(count * unit for count in counted for unit in _UNITS)


def rate_bounds(timing: Timing, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The ratio Mbytes/sec / (size / time) of each row: what its digits allow. NaN: a row cannot tell."""
    if timing.rate is None:
        return np.full(len(sizes), np.nan), np.full(len(sizes), np.nan)
    usable = (sizes > 0) & (timing.time_us.low > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(usable, timing.rate.low * timing.time_us.low / sizes, np.nan)
        high = np.where(usable, timing.rate.high * timing.time_us.high / sizes, np.nan)
    return low, high
