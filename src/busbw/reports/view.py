"""A report as a value: runs with their verdicts and plots, ready to become a page, text or pictures. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from busbw.analysis.compare import Comparison
from busbw.analysis.compare_setups import Choice, Effect, Reach
from busbw.model.record import Method, RunRecord, RunStatus
from busbw.planning.setups import Setup
from busbw.reports import cards, plots_of_hunt, plots_of_run, plots_of_setups, plots_over_runs
from busbw.reports.cards import Card
from busbw.reports.diagnosis import describe_run
from busbw.reports.plots import Plot
from busbw.reports.reported import Reported


@dataclass(frozen=True)
class Hunted:
    """A run that hunted, with its rounds. ``name`` is short and unique in the report."""

    name: str
    record: RunRecord
    rounds: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Series:
    """Setups that were measured in turn, compared; see ``reports.compare_setups.table``. ``facts`` say when
    and how.
    """

    name: str
    facts: tuple[tuple[str, str], ...]
    setups: tuple[Setup, ...]
    reached: tuple[Reach, ...]
    comparisons: tuple[tuple[int, Comparison], ...]
    effects: tuple[tuple[int, Effect], ...]
    choices: tuple[tuple[int, Choice], ...]


Shown = Reported | Hunted | Series


@dataclass(frozen=True)
class RunView:
    """One part of a report: a run, a hunt or a series."""

    name: str
    facts: tuple[tuple[str, str], ...]
    cards: tuple[Card, ...]
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


def view(shown: Sequence[Shown]) -> ReportView:
    """Compose the report; curves over several runs stand in one plot."""
    measured = [each for each in shown if isinstance(each, Reported)]
    several = plots_over_runs.plots(measured) if len(measured) > 1 else ()
    return ReportView(
        title=shown[0].name if len(shown) == 1 else f"{len(shown)} runs",
        runs=tuple(_part(each) for each in shown),
        plots=tuple(several),
    )


def _part(shown: Shown) -> RunView:
    if isinstance(shown, Reported):
        return RunView(shown.name, _facts(shown), cards.of_run(shown), tuple(plots_of_run.plots(shown)))
    if isinstance(shown, Hunted):
        return _hunted(shown)
    told = (shown.setups, shown.reached, shown.comparisons, shown.effects, shown.choices)
    plots = (
        plot
        for nodes, comparison in shown.comparisons
        for plot in plots_of_setups.plots(shown.name, nodes, comparison)
    )
    return RunView(shown.name, shown.facts, cards.of_setups(*told), tuple(plots))


def _hunted(shown: Hunted) -> RunView:
    record = shown.record
    hunt = record.plan.hunt
    hosts = tuple(rank.host for rank in record.world.ranks) if record.world is not None else ()
    plots: tuple[Plot, ...] = ()
    if hunt is not None and shown.rounds:
        plots = tuple(plots_of_hunt.plots(shown.name, hunt.kind, hunt.size_bytes, hosts, shown.rounds))
    facts = _who_and_where(record, "", with_method=False)
    return RunView(shown.name, facts, cards.of_hunt(record.hunt, record.findings), plots)


def _facts(run: Reported) -> tuple[tuple[str, str], ...]:
    wires = run.wires.source if run.wires.network_gb_per_s or run.wires.nvlink_gb_per_s else ""
    return _who_and_where(run.record, wires, with_method=True)


def _who_and_where(record: RunRecord, wires: str, *, with_method: bool) -> tuple[tuple[str, str], ...]:
    """What a number means nothing without: who, where, with what, how measured."""
    method = (record.method or Method()) if with_method else None
    world = record.world
    devices = {rank.device for rank in world.ranks} - {""} if world is not None else set()
    found = {
        "run": describe_run(record),
        "measured": record.created[:19].replace("T", " "),
        "hosts": ", ".join(world.hosts[:8]) + (" ..." if len(world.hosts) > 8 else "") if world else "",
        "devices": ", ".join(sorted(devices)),
        "time": method.time if method is not None else "",
        "interval": method.interval if method is not None else "",
        "units": "GB/s = 10^9 bytes/s; times in us" if method is not None else "",  # the record has ns
        "wires": wires,
        "status": _status(record),
    }
    return tuple((name, value) for name, value in found.items() if value)


def _status(record: RunRecord) -> str:
    """How a run ended that did not come to its end; empty for one that did."""
    if record.status is RunStatus.COMPLETE:
        return ""
    left = len(record.unmeasured)
    missing = f"{left} of {len(record.plan.cases)} cases were not measured" if left else ""
    why = "; ".join(filter(None, (record.error, missing)))
    return f"{record.status.value}: {why}" if why else record.status.value
