"""The average bus bandwidth that nccl-tests prints below its rows: whether all rows are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from busbw.importers.body import Timing
from busbw.importers.printed import OnePrinted
from busbw.importers.raw import Earlier
from busbw.model.record import OTHER_OUTPUT, ImportFinding

# What was noted of single lines: they were rows, or rows were left out there.
_OF_LINES: Final = ("damaged", "gap")


@dataclass(frozen=True)
class Mean:
    """Of the bus bandwidths of all rows, to within ``rounding``; of how many."""

    value: float
    rounding: float
    count: int

    def fits(self, average: OnePrinted) -> bool:
        """Whether the printed average is this one."""
        return abs(self.value - average.value) <= self._tolerance(average)

    def is_whole(self, average: OnePrinted) -> bool:
        """Whether it fits, and would not with one more row of nearly any bandwidth."""
        return self.fits(average) and (self.count + 1) * self._tolerance(average) < self.value

    def _tolerance(self, average: OnePrinted) -> float:
        return self.rounding + average.half + 1e-9 * abs(self.value)


def mean_busbw(timings: Sequence[Timing], earlier: Earlier) -> Mean | None:
    """The mean over the rows of a table, and of its parts before; None where they have no bandwidth."""
    columns = [timing.busbw for timing in timings if timing.busbw is not None]
    if not columns:
        return None
    values = np.concatenate([column.value for column in columns])
    halves = np.concatenate([column.half for column in columns])
    usable = np.isfinite(values)
    count = earlier.printed + int(usable.sum())
    if not count:
        return None
    total = earlier.total + float(values[usable].sum())
    rounding = earlier.half + float(halves[usable].sum())
    return Mean(total / count, rounding / count, count)


def without_false_damage(
    findings: Sequence[ImportFinding], average: OnePrinted | None, timings: Sequence[Timing], earlier: Earlier
) -> tuple[ImportFinding, ...]:
    """What was noted of lines that are no whole rows: other output of the job, where the printed average is
    that of the rows.
    """
    if average is None or all(finding.kind not in _OF_LINES for finding in findings):
        return tuple(findings)
    mean = mean_busbw(timings, earlier)
    if mean is None or not mean.is_whole(average):
        return tuple(findings)
    return tuple(
        replace(finding, kind=OTHER_OUTPUT, text=f"{finding.text} (by the printed average no row is missing)")
        if finding.kind in _OF_LINES
        else finding
        for finding in findings
    )
