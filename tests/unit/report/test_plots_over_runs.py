"""Plots over several runs: what is one curve and what is not."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from busbw_testing.compared import record_of

from busbw.cli.report import compared_runs
from busbw.judge.expectation import expect
from busbw.judge.wires import Wires
from busbw.model.layout import Placement
from busbw.model.record import RunRecord
from busbw.model.sample import DIGEST_DTYPE, SAMPLE_DTYPE
from busbw.report import plots_over_runs
from busbw.report.plots import DASHES, SERIES, Plot, Table, on_paper, svg
from busbw.report.reported import Reported

SIZE = 2**20


def run(name: str, ranks: int, us: float, backend: str = "nccl", version: str = "2.28.9") -> Reported:
    record = record_of({SIZE: us}, ranks=ranks, version=version)
    return reported(name, replace(record, plan=replace(record.plan, backend=backend)))


def reported(name: str, record: RunRecord) -> Reported:
    none = np.empty(0, SAMPLE_DTYPE), np.empty(0, DIGEST_DTYPE)
    return Reported(name, record, expect((record,), ()), Wires(source="the test"), {}, (), *none)


def scaling(*runs: Reported) -> Plot | None:
    return next((plot for plot in plots(*runs) if plot.what == "scaling"), None)


def plots(*runs: Reported) -> list[Plot]:
    return list(plots_over_runs.plots(runs, compared_runs(runs)))


def test_runs_that_differ_in_their_ranks_alone_are_one_curve_with_their_names() -> None:
    plot = scaling(run("two", 2, 10.0), run("four", 4, 20.0))
    assert plot is not None
    assert {row["series"] for row in plot.rows} == {"1 MiB"}
    assert [cells[-1] for cells in plot.table.rows] == ["two", "four"]
    assert "(four)" in plot.rows[1]["text"]
    # Families are curves of their own.
    on_mpi = (run("c", 2, 90.0, backend="mpi"), run("d", 4, 99.0, backend="mpi"))
    plot = scaling(run("a", 2, 10.0), run("b", 4, 20.0), *on_mpi)
    assert plot is not None
    assert sorted({row["series"] for row in plot.rows}) == ["mpi 1 MiB", "nccl 1 MiB"]


def test_times_under_a_profiler_are_held_against_nothing() -> None:
    def names(*runs: Reported) -> list[str]:
        return [plot.what for plot in plots(*runs)]

    def profiled(run: Reported) -> Reported:
        results = tuple(replace(result, conditions=("profiled",)) for result in run.record.results)
        return reported(run.name, replace(run.record, results=results))

    alike, more = run("b", 2, 11.0), run("c", 4, 20.0)
    assert names(run("a", 2, 10.0), alike, more) == ["bandwidth", "time", "scaling", "compared"]
    assert names(run("a", 2, 10.0), profiled(alike), profiled(more)) == ["bandwidth", "time"]
    assert names(profiled(alike), profiled(more)) == ["bandwidth", "time"]


def test_a_curve_is_of_one_placement() -> None:
    """The in-place case stands first here, and is twice as fast."""
    record = run("two", 2, 20.0).record
    (case,), (result,) = record.plan.cases, record.results
    cases = (replace(case, placement=Placement.IN_PLACE), replace(case, index=1))
    fast = replace(result, busbw_gb_per_s=2 * (result.busbw_gb_per_s or 0.0))
    both = replace(record, plan=replace(record.plan, cases=cases), results=(fast, replace(result, case=1)))
    plot = scaling(reported("two", both), run("four", 4, 20.0))
    assert plot is not None
    assert plot.rows[0]["y"] == result.busbw_gb_per_s


def test_runs_are_drawn_with_the_verdicts_of_compare() -> None:
    """One launch each: a size of 1 MiB on GPUs, which launches of 1 % scatter tell apart, or not."""
    for us, verdict in ((30.0, "SLOWER"), (10.05, "SAME"), (10.5, "AMBIGUOUS")):
        (row,) = next(
            plot for plot in plots(run("a", 2, 10.0), run("b", 2, us)) if plot.what == "compared"
        ).rows
        assert row["bin"] == verdict


def test_one_launch_has_no_range() -> None:
    (comparison,) = compared_runs((run("a", 2, 10.0), run("b", 2, 11.0)))
    curves = list(plots_over_runs.curves_of("", comparison))
    assert {(row["low"], row["high"]) for plot in curves for row in plot.rows} == {(None, None)}
    assert not any("band" in plot.note for plot in curves)


def test_a_band_ends_where_a_size_has_no_interval() -> None:
    ends = {1: (0.9, 1.1), 2: (1.8, 2.2), 4: (None, None), 8: (7.0, 9.0), 16: (15.0, 17.0)}
    rows = tuple(
        {"series": "a", "kind": "measured", "x": x, "y": x, "low": low, "high": high, "text": "", "part": 0}
        for x, (low, high) in ends.items()
    )
    plot = Plot(
        "curve", (), "n", "t", "", rows, Table(("x",), ()), {"x": "size", "y": "bus bandwidth (GB/s)"}
    )
    (band,) = re.findall(r'<path[^>]* d="([^"]*)"[^>]*opacity="0.22"', svg(plot, on_paper))
    assert band.count("M") == 2


def test_nine_runs_are_told_apart() -> None:
    """No two have the same colour and the same point, nor the same colour and the same dash."""
    picture = svg(next(plot for plot in plots(*(run(f"r{at}", 2, 10.0 + at) for at in range(9)))), on_paper)
    points = re.findall(r'aria-roledescription="point"[^>]* d="([^"]*)"[^>]* fill="([^"]*)"', picture)
    assert len(points) == len(set(points)) == 9
    lines = {(SERIES[at % len(SERIES)], tuple(DASHES[at % len(DASHES)])) for at in range(9)}
    assert len(lines) == 9
