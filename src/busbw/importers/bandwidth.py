"""Times and bandwidths of a table in our units: ns, decimal GB/s, the whole buffer as size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from busbw.importers.check import Checked
from busbw.importers.columns import IntArray
from busbw.importers.headings import NCCOM_TEST
from busbw.importers.operations import DOUBLE, PLAIN, SHARED, UNEVEN
from busbw.importers.printed import FloatArray, Printed
from busbw.importers.table import Table
from busbw.model.record import ImportFinding
from busbw.units import NS_PER_US

_FROM_TIME = "size / time"


@dataclass(frozen=True)
class Bandwidths:
    """Arrays by row, for each placement of the table; NaN where there is no number."""

    sizes: IntArray | FloatArray
    times_ns: tuple[FloatArray, ...]
    algbw: tuple[FloatArray, ...]
    busbw: tuple[FloatArray, ...]
    algbw_from: str
    busbw_from: str
    is_mean: bool
    findings: tuple[ImportFinding, ...] = ()


def bandwidths(checked: Checked, name: str, ranks: int) -> Bandwidths:
    """Bandwidths from size and time, whose digits say more than those of printed bandwidths; the printed ones
    for operations whose bytes the size does not tell.
    """
    table = checked.table
    sizes = table.sizes * ranks if table.shares else table.sizes
    times = tuple(_times_ns(table, side) for side in range(len(table.timings)))
    known = name in (DOUBLE | SHARED | PLAIN) - UNEVEN
    factor = busbw_factor(name, max(ranks, 1))
    if known and table.trusted_time:
        share = (ranks - 1) / max(ranks, 1) if name == "hypercube" else 1.0
        algbw = tuple(_per_time(sizes * share, time) for time in times)
        busbw = tuple(values * factor for values in algbw)
        words = (_FROM_TIME, f"algbw times the factor of {name} on {ranks} ranks")
    else:
        unit = checked.gb or 1.0
        algbw = tuple(_printed(timing.algbw, unit, len(table)) for timing in table.timings)
        busbw = tuple(_printed(timing.busbw, unit, len(table)) for timing in table.timings)
        words = ("rows", "rows")
    if ranks <= 1:
        busbw = tuple(np.full(len(table), np.nan) for _ in busbw)
        words = (words[0], "none: one rank")
    return Bandwidths(
        sizes=sizes,
        times_ns=times,
        algbw=algbw,
        busbw=busbw,
        algbw_from=words[0],
        busbw_from=words[1],
        is_mean="mean" in table.time and "median" not in table.time,
        findings=tuple(_unit_findings(checked, name)),
    )


def busbw_factor(name: str, ranks: int) -> float:
    """The factor busbw / algbw by nccl-tests' sources; NaN for operations that have none."""
    if name in DOUBLE:
        return 2 * (ranks - 1) / ranks
    if name in SHARED:
        return (ranks - 1) / ranks
    return 1.0 if name in PLAIN else float("nan")


def _times_ns(table: Table, side: int) -> FloatArray:
    timing = table.timings[side]
    if table.trusted_time or timing.algbw is None:
        return timing.time_us.value * NS_PER_US
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(timing.algbw.value > 0, table.sizes / timing.algbw.value, np.nan)


def _per_time(sizes: npt.NDArray[np.number[Any]], times_ns: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(times_ns > 0, sizes / times_ns, np.nan)


def _printed(column: Printed | None, unit: float, rows: int) -> FloatArray:
    return np.full(rows, np.nan) if column is None else column.value * unit


def _unit_findings(checked: Checked, name: str) -> list[ImportFinding]:
    table = checked.table
    findings = []
    if table.tool == NCCOM_TEST and len(table):
        if checked.gb is None:
            text = "its digits do not tell GiB/s from GB/s; bandwidths were made from size and time"
            findings.append(ImportFinding("unit", text, table.first_line))
        elif checked.gb != 1.0:
            text = "printed GB/s are GiB/s (2^30 bytes); bandwidths here are decimal"
            findings.append(ImportFinding("unit", text, table.first_line))
    scale = checked.scale
    if scale is not None and scale.high < 0.999 and table.tool != NCCOM_TEST and name in SHARED:
        text = (
            "an old version's algbw, which leaves a rank's own block out; here algbw is size / time as in"
            " nccl-tests today"
        )
        findings.append(ImportFinding("formula", text, table.first_line))
    return findings
