"""A report as a value: an answer, its curves and what it stands on, for every run, hunt or series of setups;
ready to become a page, text or pictures. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress, islice
from typing import Any, Final

from busbw.judge.compare import Comparison, Verdict
from busbw.judge.compare_regimes import compared_regimes
from busbw.judge.compare_setups import ComparedSeries
from busbw.judge.diagnose.engine import decisive
from busbw.judge.expectation import Judgement
from busbw.judge.tune import Tuning
from busbw.model.conclusion import QUESTIONS, Answer
from busbw.model.finding import Finding, Severity, worst_first
from busbw.model.record import Method, RunRecord, RunStatus
from busbw.model.result import Status
from busbw.model.soak import SOAK_CHECK
from busbw.report import compare as plain
from busbw.report import compare_setups as words
from busbw.report import plots_of_hunt, plots_of_run, plots_over_runs, soak, tune
from busbw.report.answer import RunAnswer, answer_of
from busbw.report.diagnosis import describe_run
from busbw.report.fields import sizes
from busbw.report.hunt import exclude_words, noise_words, ranking_words, verdict_words
from busbw.report.plots import Plot, Table, named
from busbw.report.provenance import measured_words
from busbw.report.reported import Reported
from busbw.units import counted, first_of, format_share, name_ranges, were

_MOST_ANSWERS: Final = 3  # of a headline
_MOST_HOSTS: Final = 8


@dataclass(frozen=True)
class Headline:
    """What came out, and the verdict on it, either of which may be empty. ``tone`` is what that means, one of
    Answer, whatever word it is said with.
    """

    text: str
    verdict: str = ""
    tone: Answer = Answer.NOT_OBSERVABLE


@dataclass(frozen=True)
class Check:
    """A question, its answer, the claim that decides it, and findings that it stands on."""

    title: str
    answer: str
    tone: Answer
    claim: str = ""
    notes: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Part:
    """A run, a hunt, a series, or several runs together, in the order of the page. ``problems`` are short
    sentences; ``answers`` verdicts by range of sizes; ``unseen`` says what could not be observed; ``facts``
    where and how it was measured.
    """

    name: str
    headline: Headline
    problems: tuple[str, ...] = ()
    answers: Table | None = None
    curves: tuple[Plot, ...] = ()
    checks: tuple[Check, ...] = ()
    unseen: str = ""
    evidence: tuple[Plot, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def plots(self) -> tuple[Plot, ...]:
        """In the order of the page."""
        return (*self.curves, *self.evidence)


@dataclass(frozen=True)
class Other:
    """A hunt, a tuning or a series of setups, which has no record of its own. ``name`` is short and unique in
    the report; ``part`` makes what the report shows, of that name.
    """

    name: str
    record: RunRecord | None
    part: Callable[[str], Part]


Shown = Reported | Other


@dataclass(frozen=True)
class ReportView:
    """The whole report: what stands open, and the single runs of several below it."""

    title: str
    lead: tuple[Part, ...]
    runs: tuple[Part, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """In the order of the page."""
        return (*self.lead, *self.runs)

    @property
    def every_plot(self) -> tuple[Plot, ...]:
        """In the order of the page."""
        return tuple(plot for part in self.parts for plot in part.plots)


def view(shown: Sequence[Shown], comparisons: Sequence[Comparison] = ()) -> ReportView:
    """Compose the report. Of several runs the answer comes first: ``comparisons`` of those that can be
    compared, and their curves in one plot.
    """
    parts = [_of_run(each) if isinstance(each, Reported) else each.part(each.name) for each in shown]
    measured = [each for each in shown if isinstance(each, Reported)]
    title = " and ".join(each.name for each in shown) if len(shown) < 3 else f"{len(shown)} runs"
    lead, runs = tuple(parts), tuple[Part, ...]()
    if len(parts) == 1:
        title = parts[0].headline.text
    if len(measured) > 1:
        is_run = [isinstance(each, Reported) for each in shown]
        runs = tuple(compress(parts, is_run))
        lead = (_together(measured, comparisons), *compress(parts, (not each for each in is_run)))
    return _finished(ReportView(title, lead, runs))


def _finished(report: ReportView) -> ReportView:
    """With names of the plots."""
    plots = iter(named(report.every_plot))

    def part(own: Part) -> Part:
        curves = tuple(islice(plots, len(own.curves)))
        return replace(own, curves=curves, evidence=tuple(islice(plots, len(own.evidence))))

    lead = tuple(map(part, report.lead))
    return replace(report, lead=lead, runs=tuple(map(part, report.runs)))


# ---- one run ----------------------------------------------------------------------------------------------


def _of_run(run: Reported) -> Part:
    answer = answer_of(run.record, run.expectation, run.conclusions, run.name)
    wires = run.wires.source if run.wires.network_gb_per_s or run.wires.nvlink_gb_per_s else ""
    checks = tuple(_checks(run))
    status = _status(run.record)
    problems = tuple(filter(None, (status, *(each for each in answer.problems if each not in status))))
    headline = _headline(run, answer)
    if run.record.status is RunStatus.FAILED or any(each.status in _NO_NUMBER for each in run.record.results):
        # What went wrong is the answer; the numbers that there are come second.
        verdict = ": ".join(filter(None, (headline.text, headline.verdict)))
        headline, problems = Headline(problems[0], verdict), problems[1:]
    seen: list[tuple[str, str]] = []  # what a soak would have seen
    if run.record.soak:
        # Slow calls are problems to look at; only wrong data and a lost level fail a soak.
        worse = any(each["after_ns"] > each["before_ns"] for each in run.record.soak["changes"])
        tone = Answer.NO if run.record.soak["wrong_windows"] or worse else Answer.YES
        headline = replace(headline, verdict=soak.call_words(run.record.soak), tone=tone)
        problems += tuple(each.claim for each in run.record.findings if each.check == SOAK_CHECK)
        seen = [("soak", line) for line in soak.power_lines(run.record.soak, run.record.plan.cases)]
    return Part(
        run.whole_name,
        headline,
        problems,
        curves=() if run.record.soak and len(run.timed) == 1 else tuple(plots_of_run.curves_of(run)),
        checks=tuple(each for each in checks if each.tone is not Answer.NOT_OBSERVABLE),
        unseen="; ".join(each.claim for each in checks if each.tone is Answer.NOT_OBSERVABLE and each.claim),
        evidence=tuple(plots_of_run.evidence_of(run)),
        facts=(*_facts(run.record, wires), *seen),
    )


# What the words of judgements, comparisons and hunts mean.
_TONES: Final[Mapping[str, Answer]] = {
    Judgement.EXPECTED: Answer.YES, Judgement.BELOW: Answer.NO, Judgement.UNDECIDED: Answer.UNDECIDED,
    Verdict.FASTER: Answer.YES, Verdict.SLOWER: Answer.NO, Verdict.SAME: Answer.YES,
    Verdict.AMBIGUOUS: Answer.UNDECIDED, "healthy": Answer.YES, "slow": Answer.NO,
}  # fmt: skip
_NO_NUMBER: Final = (Status.WRONG, Status.FAILED)


def _headline(run: Reported, answer: RunAnswer) -> Headline:
    """The run's answer, with where it was measured. Green is a peak that was judged itself."""
    peak, _, verdict = answer.answer.partition(": ")
    tone = _TONES.get(answer.verdict, Answer.NOT_OBSERVABLE)
    if tone is Answer.YES and answer.loss_unseen is None:
        tone = Answer.UNDECIDED
    return Headline(", ".join(filter(None, (peak, _where(run)))), verdict, tone)


def _where(run: Reported) -> str:
    """``16 ranks, 2 x p5.48xlarge``."""
    world = run.record.world
    if world is None:
        return ""
    hosts, devices = len(world.known_hosts), world.known_devices
    place = run.machine or (f"{world.size} x {devices[0]}" if len(devices) == 1 else "")
    on = f"on {counted(hosts, 'host')}" if hosts > 1 and not run.machine else ""
    return ", ".join(filter(None, (counted(world.size, "rank"), f"{place} {on}".strip())))


def _checks(run: Reported) -> Iterator[Check]:
    """The questions, one each."""
    for question, text in QUESTIONS.items():
        own = worst_first([each for each in run.conclusions if each.question is question])
        answer = run.answers.get(question, Answer.NOT_OBSERVABLE)
        decides = decisive(question, answer, run.conclusions)
        first = (decides,) if decides is not None and (decides.evidence or decides.hint) else ()
        notes = (*first, *(each for each in own if each is not decides))
        yield Check(text, answer.value, answer, decides.claim if decides is not None else "", notes)


def _facts(record: RunRecord, wires: str) -> tuple[tuple[str, str], ...]:
    """What a number means nothing without: who, where, with what, how measured."""
    method = (record.method or Method()) if record.plan.hunt is None else None
    world = record.world
    hosts = world.known_hosts if world is not None else ()
    found = {
        "run": describe_run(record),
        "measured": measured_words(record),
        "hosts": first_of(hosts if len(hosts) <= _MOST_HOSTS else name_ranges(hosts), _MOST_HOSTS),
        "devices": ", ".join(sorted(world.known_devices)) if world is not None else "",
        "time": method.time if method is not None else "",
        "interval": method.interval if method is not None else "",
        "wires": wires,
    }
    return tuple((name, value) for name, value in found.items() if value)


def _status(record: RunRecord) -> str:
    """How a run ended that did not come to its end; empty for one that did."""
    if record.status is RunStatus.COMPLETE:
        return ""
    left = len(record.unmeasured)
    missing = f"{left} of {len(record.plan.cases)} cases {were(left)} not measured" if left else ""
    why = "; ".join(filter(None, (record.error, missing)))
    return f"{record.status.value}: {why}" if why else record.status.value


# ---- several runs, and setups -----------------------------------------------------------------------------


def _together(runs: Sequence[Reported], comparisons: Sequence[Comparison]) -> Part:
    """Which is better, where and by how much; then the curves of all."""
    plots = tuple(plots_over_runs.plots(runs, comparisons))
    curves = tuple(plot for plot in plots if plot.kind == "curve")
    facts = dict.fromkeys(fact for each in comparisons for fact in _evidence(each))
    return Part(
        "",
        _better(comparisons, len(runs)),
        answers=_answers(comparisons) if comparisons else None,
        curves=curves,
        evidence=tuple(plot for plot in plots if plot not in curves),
        facts=(*_apart(runs, comparisons), *facts),
    )


def _apart(runs: Sequence[Reported], comparisons: Sequence[Comparison]) -> Iterator[tuple[str, str]]:
    """What is compared with nothing, and why: one line."""
    rows = [row for each in comparisons for row in each.rows if row.verdict is not Verdict.MISSING]
    compared = {row.arm for row in rows} | {each.baseline.name for each in comparisons}
    alone = [run for run in runs if run.name not in compared]
    if alone:
        who = ", ".join(f"{run.name} ({counted(run.expectation.arm.ranks, 'rank')})" for run in alone)
        yield (
            "not compared",
            f"{who}: a run is compared with the first of as many ranks, in cases that both have",
        )


def _better(comparisons: Sequence[Comparison], runs: int) -> Headline:
    """The differences; where there is none, that, or that none can be seen."""
    regimes = [(each, regime) for each in comparisons for regime in compared_regimes(each)]
    several = len({plain.regime_kind(regime) for _, regime in regimes}) > 1
    for verdicts in ((Verdict.FASTER, Verdict.SLOWER), (Verdict.SAME,), (Verdict.AMBIGUOUS,)):
        told = [(each, regime) for each, regime in regimes if regime.verdict in verdicts]
        if told:
            texts = [
                f"{regime.arm}{f' {plain.regime_kind(regime)}' if several else ''} at"
                f" {sizes(regime.first_bytes, regime.last_bytes)}: {plain.answer_words(regime)}"
                for _, regime in told
            ]
            bounds = [regime.bound for _, regime in told if regime.bound is not None and not regime.why]
            if verdicts == (Verdict.AMBIGUOUS,) and len(bounds) == len(told):
                texts = [f"No difference seen; one below {format_share(max(bounds))} would not show"]
            against = dict.fromkeys(each.baseline.name for each, _ in told)
            tones = {_TONES[regime.verdict] for _, regime in told}
            tone = tones.pop() if len(tones) == 1 else Answer.UNDECIDED
            return Headline(first_of(texts, _MOST_ANSWERS, "; "), f"against {', '.join(against)}", tone)
    return Headline(f"{runs} runs", "none can be compared with another")


def _answers(comparisons: Sequence[Comparison], nodes: Sequence[int] = ()) -> Table:
    """A row a regime, in compare's words. ``nodes`` is 0 for ranks of one host."""
    on = nodes or [0] * len(comparisons)
    where = [
        counted(nodes, "node") if nodes else each.baseline.name
        for each, nodes in zip(comparisons, on, strict=True)
    ]
    several = len(set(where)) > 1
    rows = [
        (regime.arm, *([at] if several else []), plain.regime_kind(regime),
         sizes(regime.first_bytes, regime.last_bytes), plain.regime_words(regime))
        for each, at in zip(comparisons, where, strict=True)
        for regime in compared_regimes(each)
        if regime.verdict is not Verdict.MISSING
    ]  # fmt: skip
    head = ("", *(["on" if any(on) else "against"] if several else []), "of", "sizes", "verdict")
    return Table(head, tuple(rows), keys=len(head))


def _evidence(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """What compare says that its verdicts stand on; the cases are all here."""
    return (fact for fact in plain.evidence(comparison) if fact[0] != "cases")


def of_series(name: str, facts: Sequence[tuple[str, str]], compared: ComparedSeries) -> Part:
    """Of setups that were measured in turn which one to take, then what every setup sets, gains and costs;
    ``facts`` say when and how.
    """
    comparisons = [each for _, each in compared.comparisons]
    taken = list(words.taken(compared.choices))
    decided = any(
        row.verdict in (Verdict.FASTER, Verdict.SLOWER, Verdict.SAME)
        for each in comparisons
        for row in each.rows
    )
    curves, maps = [], []
    for nodes, each in compared.comparisons:
        where = f" on {nodes} nodes" if nodes else ""
        maps += list(plots_over_runs.verdicts(name, each, where))
        curves += list(plots_over_runs.curves_of(name, each, where))
    text = f"Take {first_of(taken, _MOST_ANSWERS, '; ')}" if taken else "Take none: the default has no number"
    default = comparisons[0].baseline.name
    gains = any(each.setup != default for _, each in compared.choices)
    against = f"against {default}" if gains else "no other setup is shown to be faster"
    return Part(
        name,
        Headline(text, against, Answer.YES if decided else Answer.UNDECIDED),
        tuple(words.reach(each) for each in compared.reached if each.failed or each.wrong),
        _answers(comparisons, [nodes for nodes, _ in compared.comparisons]),
        tuple(curves),
        tuple(_setups(compared)),
        evidence=tuple(maps),
        facts=tuple(dict.fromkeys((*facts, *(fact for each in comparisons for fact in _evidence(each))))),
    )


def _setups(compared: ComparedSeries) -> Iterator[Check]:
    """What each sets, why, and how far it came."""
    for setup in compared.setups:
        reached = [each for each in compared.reached if each.setup == setup.name]
        failed = [each for each in reached if each.failed or each.wrong]
        notes = [Finding(Severity.INFO, setup.why)] if setup.why else []
        for each in failed:
            said = words.reach(each).removeprefix(f"{setup.name}: ")
            notes.append(Finding(Severity.INFO, said, evidence=" | ".join(each.words)))
        tone = Answer.NO if failed else Answer.NOT_OBSERVABLE
        yield Check(setup.name, "failed" if failed else "ran", tone, words.changes(setup), tuple(notes))


def of_tuning(name: str, record: RunRecord, tuning: Tuning) -> Part:
    """Of a race of what NCCL can do the winners; the arms themselves are the record's."""
    rows, head = tuple(tune.rows(tuning)), tune.HEAD
    return Part(
        name,
        Headline(tune.answer(tuning)),
        tuple(filter(None, (_status(record),))),
        answers=Table(head, rows, keys=len(head)) if rows else None,
        facts=(*_facts(record, ""), *(("note", text) for text in tune.remarks(tuning))),
    )


# ---- hunts ------------------------------------------------------------------------------------------------

_WORST_FIRST: Final = (Answer.NO, Answer.UNDECIDED, Answer.YES)


def of_hunt(name: str, record: RunRecord, rounds: Sequence[Mapping[str, Any]]) -> Part:
    """Of a run that hunted, with its rounds."""
    hunt, plots = record.plan.hunt, tuple[Plot, ...]()
    hosts = tuple(rank.host for rank in record.world.ranks) if record.world is not None else ()
    if hunt is not None and rounds:
        plots = tuple(plots_of_hunt.plots(name, hunt.kind, hunt.size_bytes, hosts, rounds))
    fields = (record.hunt or {}).get("fields", ())
    warned = [each for each in record.findings if each.severity is not Severity.INFO]
    headline = Headline(plots[0].words.get("headline", plots[0].title) if plots else name)
    if fields:  # the verdict of isolate on each: hosts, or the ranks of a host
        tone = min((_TONES[field["decision"]] for field in fields), key=_WORST_FIRST.index)
        headline = Headline("; ".join(map(_hunted_words, fields)), "", tone)
    return Part(
        name,
        headline,
        tuple(filter(None, (_status(record), *(each.claim for each in worst_first(warned))))),
        checks=tuple(map(_field, fields)),
        evidence=plots,
        facts=(
            *_facts(record, ""),
            *(("note", each.claim) for each in record.findings if each not in warned),
            *(("next", hint) for hint in dict.fromkeys(each.hint for each in warned if each.hint)),
        ),
    )


def _hunted_words(field: Mapping[str, Any]) -> str:
    """``SLOW: h6, of 8 hosts``; where nothing is slow, how many were tested."""
    of = counted(len(field["names"]), field["kind"])
    slow = dict.fromkeys(" and ".join(each["names"]) for each in field["suspects"])
    words = verdict_words(field)
    return f"{words}: {first_of(slow, _MOST_ANSWERS)}, of {of}" if slow else f"{of}: {words}"


def _field(field: Mapping[str, Any]) -> Check:
    said = filter(None, (noise_words(field), ranking_words(field)))
    notes = [Finding(Severity.INFO, text) for text in said]
    notes += [
        Finding(Severity.INFO, f"leave out, for {name}", evidence=text) for name, text in exclude_words(field)
    ]
    title = f"Is any of {counted(len(field['names']), field['kind'])} slow?"
    claim = counted(int(field["rounds"]), "round")
    return Check(title, str(field["decision"]), _TONES[field["decision"]], claim, tuple(notes))
