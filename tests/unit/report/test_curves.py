"""What a curve's caption says of its numbers."""

from __future__ import annotations

from dataclasses import replace

from busbw_testing.compared import record_of

from busbw.report import curves


def test_a_log_has_neither_a_band_nor_a_mean() -> None:
    record = record_of({1024: 10.0, 2048: 11.0}, ranks=2)
    found = [
        (record.plan.cases[each.case], replace(each, samples=20, mean_ns=1e4)) for each in record.results
    ]
    bare = [
        (case, replace(result, low_ns=None, high_ns=None, samples=0, mean_ns=result.time_ns))
        for case, result in found
    ]
    whole, log = (curves.time("t", "T", {"run": each}) for each in (found, bare))
    assert whole is not None
    assert log is not None
    assert "the band is the 95 % interval. The mean is that of all samples." in whole.note
    assert log.note == "Both axes are logarithmic."
    assert "mean us" in whole.table.head
    assert "mean us" not in log.table.head


def test_an_interval_that_begins_at_zero_has_no_upper_bandwidth() -> None:
    record = record_of({1024: 10.0}, ranks=2)
    found = [
        (record.plan.cases[each.case], replace(each, low_ns=0.0, high_ns=2e4)) for each in record.results
    ]
    plot = curves.bandwidth("b", "B", {"run": found}, {})
    assert plot is not None
    assert all(row["high"] is None for row in plot.rows)
    assert "95 % interval" not in plot.table.head
