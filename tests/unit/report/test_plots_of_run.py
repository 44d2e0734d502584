"""Plots of one run: what stands in their tables and captions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from busbw_testing.reported import run_folder

from busbw.cli.report import shown
from busbw.model.sample import SampleFlag
from busbw.report import plots_of_run
from busbw.report.plots import Plot, Table, chart
from busbw.report.reported import Reported


def histogram(run: Reported) -> Plot:
    return next(plot for plot in plots_of_run.evidence_of(run) if plot.kind == "histogram")


def test_a_histogram_says_which_samples_its_percentiles_are_without(tmp_path: Path) -> None:
    (run,) = shown([str(run_folder(tmp_path, "run", ranks=2, powers=range(10, 12)))])
    assert isinstance(run, Reported)
    plain = histogram(run)
    assert "samples of the percentiles" not in dict(plain.table.rows)
    assert plain.note.endswith("call each.") or plain.note.endswith("calls each.")
    samples = run.samples.copy()
    samples["flags"][::20] |= SampleFlag.DESCHEDULED
    told = histogram(replace(run, samples=samples))
    assert dict(told.table.rows)["samples"] == dict(plain.table.rows)["samples"] == "200"
    assert dict(told.table.rows)["samples of the percentiles"] == "190"
    assert "Flagged: 10 samples" in told.note
    assert "not in the percentiles." in told.note


def test_notebooks_take_the_pictures_of_a_run(tmp_path: Path) -> None:
    (run,) = shown([str(run_folder(tmp_path, "run", ranks=2, powers=range(10, 12)))])
    assert isinstance(run, Reported)
    drawn = list(plots_of_run.evidence_of(run))
    row = {"y": "mlx5_0", "x": 20.0, "state": "carried", "rate": 25.0, "cell": "20", "text": "20 GB/s"}
    words = {"x": "GB/s", "bins": {"carried": "mid"}}
    drawn.append(Plot("bars", ("run",), "links", "Links", "", (row,), Table(("link",), ()), words))
    assert {plot.kind for plot in drawn} >= {"heat", "histogram", "bars"}
    for plot in drawn:
        assert chart(plot).to_dict()["title"].startswith(plot.title)
