"""Whether a table is whole, for every tool and form.

A table is *cut* where its job ended in it, by its own words or inside a row; an *excerpt* where the line that
its tool writes last is missing; it *lacks rows* where the printed average is not that of its rows.
"""

from __future__ import annotations

from dataclasses import replace
from math import fsum, isfinite
from typing import Final, NamedTuple

from busbw.foreign.logs.table import Table
from busbw.model.record import DAMAGED, OTHER_OUTPUT, ImportFinding, RunStatus

CUT: Final = "cut"


def with_its_end(table: Table, log_lines: int) -> Table:
    """The table with findings on what is missing. ``log_lines`` is the length of the whole log."""
    mean = _mean_busbw(table)
    # Of several processes, each prints the average of its own rows.
    if mean is not None and not mean.fits and not table.findings_of("separate"):
        text = (
            f"the log prints an average bus bandwidth of {mean.printed:g} GB/s, its {len(table.rows)} rows"
            f" here have {mean.value:.6g}: rows are missing or changed"
        )
        table = table.with_findings(ImportFinding("rows-missing", text, table.last_line))
    if table.findings_of(CUT):
        return table
    last = max((row.size for row in table.rows), default=0)
    if last < table.largest and not table.failures:
        text = f"its header announces sizes up to {table.largest}, and its last row has {last}"
        return table.with_findings(ImportFinding(CUT, text, table.last_line))
    if table.ended:
        return table
    damaged = {finding.line for finding in table.findings_of(DAMAGED)}
    if table.rows and log_lines and log_lines in damaged:  # an excerpt does not end inside a row
        return table.with_findings(ImportFinding(CUT, "the log ends in the middle of a row", log_lines))
    if not table.tool.end_line:
        return table
    text = f"{table.tool.end_line} missing: the log was cut here, or is an excerpt"
    return table.with_findings(ImportFinding("no-end", text, table.last_line))


def ending(table: Table, *, has_cases: bool, last_words: str) -> tuple[RunStatus, str]:
    """How the run of a table ended, and why it is incomplete; empty if it is complete. ``last_words`` is the
    last line of the log.
    """
    cut = [finding.text for finding in table.findings_of(CUT)]
    if has_cases:
        return (RunStatus.INTERRUPTED, cut[0]) if cut else (RunStatus.COMPLETE, "")
    nothing = "the log has no rows" + (f"; it ends with: {last_words}" if last_words else "")
    return RunStatus.FAILED, (cut or [nothing])[0]


# ---- the printed average -----------------------------------------------------------------------------------


class _Mean(NamedTuple):
    """Of the bus bandwidths of all rows; ``tolerance`` is what rounding lets the printed one differ by."""

    value: float
    printed: float
    tolerance: float
    rows: int

    @property
    def fits(self) -> bool:
        """Whether the printed average is this one."""
        return abs(self.value - self.printed) <= self.tolerance


def _mean_busbw(table: Table) -> _Mean | None:
    """The mean over the rows of a table; None where they have no bandwidth, or the log no average."""
    average, shown = table.average, [side.busbw for side in table.sides if isfinite(side.busbw.value)]
    if average is None or not shown:
        return None
    count = len(shown)
    value, rounding = fsum(each.value for each in shown) / count, fsum(each.half for each in shown) / count
    return _Mean(value, average.value, rounding + average.half + 1e-9 * abs(value), count)


def without_false_damage(table: Table) -> Table:
    """The table without false alarms: if the printed average is that of its rows, and would not be with one
    more of nearly any bandwidth, no row is missing, and the lines that are not whole rows are other output.
    """
    mean = _mean_busbw(table)
    if mean is None or not table.first_line or not mean.fits:
        return table
    if (mean.rows + 1) * mean.tolerance >= mean.value:
        return table
    said = " (by the printed average no row is missing)"
    findings = [
        replace(finding, kind=OTHER_OUTPUT, text=finding.text + said) if finding.kind == DAMAGED else finding
        for finding in table.findings
    ]
    return replace(table, findings=findings)
