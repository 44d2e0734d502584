"""A report as a value: runs with their verdicts and plots, ready to become a page, text or pictures. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from busbw.model.conclusion import Answer, Conclusion, Question
from busbw.model.record import Method
from busbw.reports import plots_of_run, plots_over_runs
from busbw.reports.diagnosis import describe_run
from busbw.reports.plots import Plot
from busbw.reports.reported import Reported


@dataclass(frozen=True)
class RunView:
    """One run of a report."""

    name: str
    facts: tuple[tuple[str, str], ...]
    answers: Mapping[Question, Answer]
    conclusions: tuple[Conclusion, ...]
    plots: tuple[Plot, ...]


@dataclass(frozen=True)
class ReportView:
    """The whole report: ``plots`` are those over several runs."""

    title: str
    runs: tuple[RunView, ...]
    plots: tuple[Plot, ...]

    @property
    def every_plot(self) -> tuple[Plot, ...]:
        """In the order of the page."""
        return (*self.plots, *(plot for run in self.runs for plot in run.plots))


def view(runs: Sequence[Reported]) -> ReportView:
    """Compose the report; curves over several runs stand in one plot."""
    several = plots_over_runs.plots(runs) if len(runs) > 1 else ()
    return ReportView(
        title=runs[0].name if len(runs) == 1 else f"{len(runs)} runs",
        runs=tuple(
            RunView(run.name, _facts(run), run.answers, run.conclusions, tuple(plots_of_run.plots(run)))
            for run in runs
        ),
        plots=tuple(several),
    )


def _facts(run: Reported) -> tuple[tuple[str, str], ...]:
    """What a number means nothing without: who, where, with what, how measured."""
    record = run.record
    method = record.method or Method()
    world = record.world
    devices = {rank.device for rank in world.ranks} - {""} if world is not None else set()
    found = {
        "run": describe_run(record),
        "measured": record.created[:19].replace("T", " "),
        "hosts": ", ".join(world.hosts[:8]) + (" ..." if len(world.hosts) > 8 else "") if world else "",
        "devices": ", ".join(sorted(devices)),
        "time": method.time,
        "interval": method.interval,
        "units": method.units,
        "wires": run.wires.source if run.wires.network_gb_per_s or run.wires.nvlink_gb_per_s else "",
        "status": "" if record.status.value == "complete" else f"{record.status.value}: {record.error}",
    }
    return tuple((name, value) for name, value in found.items() if value)
