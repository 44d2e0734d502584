"""Curves: what their captions and axes say of their numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from busbw_testing.compared import record_of

from busbw.model.result import Status
from busbw.report import curves
from busbw.report.plots import Table, size_ticks, value_ends, value_label, value_ticks

NO_TABLE = Table(("size",), ())
KIB, MIB, GIB = 2**10, 2**20, 2**30
Ends = tuple[float, float]


def test_a_log_has_no_band() -> None:
    record = record_of({1024: 10.0, 2048: 11.0}, ranks=2)
    found = [(record.plan.cases[each.case], each) for each in record.results]
    bare = [(case, replace(result, low_ns=None, high_ns=None)) for case, result in found]
    whole, log = (
        next(curves.curves((), "T", {"run": curves.points(each)}, NO_TABLE)) for each in (found, bare)
    )
    assert whole.note == f"{log.note} The band is the 95 % interval."


def test_an_interval_that_reaches_zero_bounds_no_bandwidth() -> None:
    record = record_of({1024: 10.0}, ranks=2)
    (result,) = record.results
    ends = {
        low: curves.points([(record.plan.cases[0], replace(result, low_ns=low, high_ns=2e4))])[0].busbw_ends
        for low in (0.0, -5.0, 5e3)
    }
    busbw = result.busbw_gb_per_s
    assert busbw is not None
    assert ends == {0.0: (None, None), -5.0: (None, None), 5e3: (busbw / 2, busbw * 2)}


def test_no_line_goes_over_a_size_without_a_number() -> None:
    record = record_of({1024: 10.0, 2048: 11.0, 4096: 12.0, 8192: 13.0}, ranks=2)
    found = [(record.plan.cases[each.case], each) for each in record.results]
    found[1] = (found[1][0], replace(found[1][1], status=Status.WRONG, busbw_gb_per_s=None))
    plot = next(curves.curves((), "B", {"run": curves.points(found)}, NO_TABLE))
    assert [(row["x"], row["part"]) for row in plot.rows] == [(1024, 0), (4096, 1), (8192, 1)]


@pytest.mark.parametrize(
    ("least", "most", "ticks"),
    [
        (8, 2 * GIB, [8, KIB, MIB, GIB]),
        (KIB, MIB, [KIB, 32 * KIB, MIB]),
        (KIB, 8 * KIB, [KIB, 2 * KIB, 4 * KIB, 8 * KIB]),
        (25 * MIB, 25 * MIB, [25 * MIB]),
    ],
)
def test_sizes_have_ticks_at_powers(least: int, most: int, ticks: list[int]) -> None:
    sizes = [least << power for power in range(40) if least << power <= most]
    assert size_ticks(sizes) == ticks


@pytest.mark.parametrize(
    ("of", "low", "high", "labels"),
    [
        ("time", 9.0, 9e3, "10 us, 20 us, 50 us, 100 us, 200 us, 500 us, 1 ms, 2 ms, 5 ms"),
        ("GB/s", 0.0008, 488.0, "0.001, 0.01, 0.1, 1, 10, 100"),
        ("time", 70.0, 70.1, "70 us, 70.1 us"),
    ],
)
def test_values_have_ticks_at_powers_without_exponents(of: str, low: float, high: float, labels: str) -> None:
    assert ", ".join(value_label(of, tick) for tick in value_ticks(low, high)) == labels


@pytest.mark.parametrize(
    ("values", "interval", "linear", "logarithmic"),
    [
        ([3.0, 12.0], (2.5, 13.0), (0.0, 13.0), (2.5, 13.0)),  # whole
        ([3.0, 12.0], (0.001, 900.0), (0.0, 24.0), (1.5, 24.0)),  # wider than legible
        ([8.0, 8.0], None, (0.0, 8.0), (8 / 2**0.5, 8 * 2**0.5)),  # one size: a factor of two all the same
    ],
)
def test_an_axis_is_of_the_points_however_wide_their_intervals(
    values: list[float], interval: Ends | None, linear: Ends, logarithmic: Ends
) -> None:
    rows = [curves.row("run", KIB, value, interval or (None, None), "") for value in values]
    assert value_ends(rows, is_log=False) == linear
    assert value_ends(rows, is_log=True) == pytest.approx(logarithmic)
