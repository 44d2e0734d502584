"""Plots over several runs: what is one curve and what is not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from busbw_testing.compared import record_of

from busbw.analysis.expectation import expect
from busbw.analysis.wires import Wires
from busbw.model.layout import Placement
from busbw.model.record import RunRecord
from busbw.model.sample import DIGEST_DTYPE, SAMPLE_DTYPE
from busbw.reports import plots_over_runs
from busbw.reports.plots import Plot
from busbw.reports.reported import Reported

SIZE = 2**20


def run(name: str, ranks: int, us: float, backend: str = "nccl", version: str = "2.28.9") -> Reported:
    record = record_of({SIZE: us}, ranks=ranks, version=version)
    return reported(name, replace(record, plan=replace(record.plan, backend=backend)))


def reported(name: str, record: RunRecord) -> Reported:
    none = np.empty(0, SAMPLE_DTYPE), np.empty(0, DIGEST_DTYPE)
    return Reported(name, record, expect((record,), ()), Wires(source="the test"), {}, (), *none)


def scaling(*runs: Reported) -> Plot | None:
    return next((plot for plot in plots_over_runs.plots(runs) if plot.name.endswith("-scaling")), None)


def test_runs_that_differ_in_their_ranks_alone_are_one_curve_with_their_names() -> None:
    plot = scaling(run("two", 2, 10.0), run("four", 4, 20.0))
    assert plot is not None
    assert {row["series"] for row in plot.rows} == {"1 MiB"}
    assert [cells[-1] for cells in plot.table.rows] == ["two", "four"]
    assert "(four)" in plot.rows[1]["text"]


def test_times_under_a_profiler_are_held_against_nothing() -> None:
    def names(*runs: Reported) -> list[str]:
        return [plot.name.rpartition("-")[2] for plot in plots_over_runs.plots(runs)]

    def profiled(run: Reported) -> Reported:
        results = tuple(replace(result, marks=("profiled",)) for result in run.record.results)
        return reported(run.name, replace(run.record, results=results))

    alike, more = run("b", 2, 11.0), run("c", 4, 20.0)
    assert names(run("a", 2, 10.0), alike, more) == ["bandwidth", "time", "compared", "scaling"]
    assert names(run("a", 2, 10.0), profiled(alike), profiled(more)) == ["bandwidth", "time"]
    assert names(profiled(alike), profiled(more)) == ["bandwidth", "time"]


def test_unrelated_runs_are_no_curve() -> None:
    """Of another backend or library, each with one number of ranks."""
    assert scaling(run("gpu", 2, 10.0), run("cpu", 4, 20.0, backend="mpi")) is None
    assert scaling(run("new", 2, 10.0), run("old", 4, 20.0, version="2.18.5")) is None


def test_families_are_curves_of_their_own() -> None:
    plot = scaling(
        run("a", 2, 10.0),
        run("b", 4, 20.0),
        run("c", 2, 90.0, backend="mpi"),
        run("d", 4, 99.0, backend="mpi"),
    )
    assert plot is not None
    assert sorted({row["series"] for row in plot.rows}) == ["mpi 1 MiB", "nccl 1 MiB"]


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
