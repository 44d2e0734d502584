"""A report as a value: runs with their verdicts and plots, ready to become a page, text or pictures. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from busbw.judge.compare import Comparison, Verdict
from busbw.judge.compare_regimes import compared_regimes
from busbw.judge.compare_setups import Reach, Recommendation
from busbw.model.conclusion import QUESTIONS, Answer
from busbw.model.finding import Finding, Severity
from busbw.model.record import Method, RunRecord, RunStatus
from busbw.plan.setups import Setup
from busbw.record.launch_times import LaunchTimes
from busbw.report import compare as plain
from busbw.report import compare_setups as words
from busbw.report import plots_of_hunt, plots_of_run, plots_of_setups, plots_over_runs
from busbw.report.diagnosis import describe_run
from busbw.report.hunt import exclude_words, noise_words
from busbw.report.plots import Plot
from busbw.report.provenance import measured_words
from busbw.report.reported import Reported


@dataclass(frozen=True)
class Card:
    """``tone`` is what the answer means, one of Answer, whatever word it is said with. ``notes`` are findings
    that it stands on; a preformatted line is in ``evidence``.
    """

    title: str
    answer: str
    tone: Answer
    notes: tuple[Finding, ...]


def of_run(run: Reported) -> tuple[Card, ...]:
    """The questions, one each."""
    return tuple(
        Card(
            text,
            run.answers[question].value,
            run.answers[question],
            tuple(each for each in run.conclusions if each.question is question),
        )
        for question, text in QUESTIONS.items()
    )


_TONES: Final = {"healthy": Answer.YES, "slow": Answer.NO, "undecided": Answer.UNDECIDED}
_WORDS: Final = {"healthy": "all alike", "slow": "slow", "undecided": "could not decide"}


def of_hunt(verdict: Mapping[str, Any], findings: Sequence[Finding]) -> tuple[Card, ...]:
    """One a field (hosts, or the ranks of a host); findings stand with the last. Matrices are not judged."""
    fields = verdict.get("fields", ())
    if not fields:
        if not findings:
            return ()
        return (Card("What was noticed", "see below", Answer.UNDECIDED, tuple(findings)),)
    made = []
    for at, field in enumerate(fields):
        own = [*(findings if at == len(fields) - 1 else ()), *_field_notes(field)]
        decision = str(field["decision"])
        title = f"Is any of {len(field['names'])} {field['kind']}s slow?"
        made.append(Card(title, _WORDS[decision], _TONES[decision], tuple(own)))
    return tuple(made)


def _field_notes(field: Mapping[str, Any]) -> Iterator[Finding]:
    yield Finding(Severity.INFO, f"{field['rounds']} rounds", evidence=noise_words(field))
    for claim, text in exclude_words(field):
        yield Finding(Severity.INFO, claim, evidence=text)


_DECIDED: Final = (Verdict.FASTER, Verdict.SLOWER, Verdict.SAME)


def of_setups(
    setups: Sequence[Setup],
    reached: Sequence[Reach],
    comparisons: Sequence[tuple[int, Comparison]],
    choices: Sequence[tuple[int, Recommendation]],
) -> tuple[Card, ...]:
    """Which setup to take, then every setup with what it gains and costs."""
    take = tuple(Finding(Severity.INFO, words.on(nodes) + words.choice(each)) for nodes, each in choices)
    baseline = comparisons[0][1].baseline.name if comparisons else ""
    taken = list(dict.fromkeys(each.setup for _, each in choices)) or ["none: the default has no number"]
    decided = any(row.verdict in _DECIDED for _, comparison in comparisons for row in comparison.rows)
    tone = Answer.YES if decided else Answer.UNDECIDED
    best = Card("Which setup to take?", ", ".join(taken), tone, take)
    return (best, *(_of_setup(setup, baseline, reached, comparisons) for setup in setups))


def _of_setup(
    setup: Setup,
    baseline: str,
    reached: Sequence[Reach],
    comparisons: Sequence[tuple[int, Comparison]],
) -> Card:
    rows = [row for _, comparison in comparisons for row in comparison.rows if row.arm == setup.name]
    counts = {verdict: sum(row.verdict is verdict for row in rows) for verdict in Verdict}
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    own = f"{setup.name}: "  # the card's title says it
    notes = [Finding(Severity.INFO, words.changes(setup), evidence=setup.why)]
    notes += [
        Finding(Severity.ERROR, words.reach(each).removeprefix(own), evidence=" | ".join(each.words))
        for each in reached
        if each.setup == setup.name and each.failed
    ]
    notes += [
        Finding(
            Severity.INFO,
            f"{words.on(nodes)}{plain.regime_kind(each)} {plain.sizes(each.first_bytes, each.last_bytes)}:"
            f" {plain.regime_words(each)}",
        )
        for nodes, comparison in comparisons
        for each in compared_regimes(comparison)
        if each.arm == setup.name
    ]
    title = f"Setup {setup.name}"
    if setup.name == baseline:
        return Card(title, "the default", Answer.NOT_OBSERVABLE, tuple(notes))
    return Card(title, told or "no case", _tone(counts), tuple(notes))


def _tone(counts: Mapping[Verdict, int]) -> Answer:
    if counts[Verdict.SLOWER] or counts[Verdict.FAILED]:
        return Answer.NO
    if counts[Verdict.FASTER]:
        return Answer.YES
    return Answer.UNDECIDED if counts[Verdict.AMBIGUOUS] else Answer.NOT_OBSERVABLE


@dataclass(frozen=True)
class HuntReport:
    """A run that hunted, with its rounds. ``name`` is short and unique in the report."""

    name: str
    record: RunRecord
    rounds: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class SeriesReport:
    """Setups that were measured in turn, compared; see ``report.compare_setups.table``. ``facts`` say when
    and how.
    """

    name: str
    facts: tuple[tuple[str, str], ...]
    setups: tuple[Setup, ...]
    reached: tuple[Reach, ...]
    comparisons: tuple[tuple[int, Comparison], ...]
    choices: tuple[tuple[int, Recommendation], ...]


Shown = Reported | HuntReport | SeriesReport


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


def view(shown: Sequence[Shown], launches: Sequence[LaunchTimes] = ()) -> ReportView:
    """Compose the report; curves over several runs stand in one plot. ``launches`` are those of this home,
    which say how launches scatter.
    """
    measured = [each for each in shown if isinstance(each, Reported)]
    several = plots_over_runs.plots(measured, launches) if len(measured) > 1 else ()
    return ReportView(
        title=shown[0].name if len(shown) == 1 else f"{len(shown)} runs",
        runs=tuple(_part(each) for each in shown),
        plots=tuple(several),
    )


def _part(shown: Shown) -> RunView:
    if isinstance(shown, Reported):
        return RunView(shown.name, _facts(shown), of_run(shown), tuple(plots_of_run.plots(shown)))
    if isinstance(shown, HuntReport):
        return _hunted(shown)
    told = (shown.setups, shown.reached, shown.comparisons, shown.choices)
    plots = (
        plot
        for nodes, comparison in shown.comparisons
        for plot in plots_of_setups.plots(shown.name, nodes, comparison)
    )
    return RunView(shown.name, shown.facts, of_setups(*told), tuple(plots))


def _hunted(shown: HuntReport) -> RunView:
    record = shown.record
    hunt = record.plan.hunt
    hosts = tuple(rank.host for rank in record.world.ranks) if record.world is not None else ()
    plots: tuple[Plot, ...] = ()
    if hunt is not None and shown.rounds:
        plots = tuple(plots_of_hunt.plots(shown.name, hunt.kind, hunt.size_bytes, hosts, shown.rounds))
    facts = _who_and_where(record, "", with_method=False)
    return RunView(shown.name, facts, of_hunt(record.hunt, record.findings), plots)


def _facts(run: Reported) -> tuple[tuple[str, str], ...]:
    wires = run.wires.source if run.wires.network_gb_per_s or run.wires.nvlink_gb_per_s else ""
    return _who_and_where(run.record, wires, with_method=True)


def _who_and_where(record: RunRecord, wires: str, *, with_method: bool) -> tuple[tuple[str, str], ...]:
    """What a number means nothing without: who, where, with what, how measured."""
    method = (record.method or Method()) if with_method else None
    world = record.world
    hosts = world.known_hosts if world is not None else ()
    found = {
        "run": describe_run(record),
        "measured": measured_words(record),
        "hosts": ", ".join(hosts[:8]) + (" ..." if len(hosts) > 8 else ""),
        "devices": ", ".join(sorted(world.known_devices)) if world is not None else "",
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
