"""Verdicts as values: what was asked, the answer, and what it stands on; of a run, a hunt, setups. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from busbw.analysis.compare import Comparison, Verdict
from busbw.analysis.compare_setups import Choice, Effect, Reach
from busbw.model.conclusion import QUESTIONS, Answer
from busbw.model.finding import Finding, Severity
from busbw.planning.setups import Setup
from busbw.reports import compare_setups as words
from busbw.reports.hunt import exclude_words, noise_words
from busbw.reports.reported import Reported


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
    effects: Sequence[tuple[int, Effect]],
    choices: Sequence[tuple[int, Choice]],
) -> tuple[Card, ...]:
    """Which setup to take, then every setup with what it gains and costs."""
    take = tuple(Finding(Severity.INFO, words.on(nodes) + words.choice(each)) for nodes, each in choices)
    baseline = comparisons[0][1].baseline.name if comparisons else ""
    taken = list(dict.fromkeys(each.setup for _, each in choices)) or ["none: the default has no number"]
    decided = any(row.verdict in _DECIDED for _, comparison in comparisons for row in comparison.rows)
    tone = Answer.YES if decided else Answer.UNDECIDED
    best = Card("Which setup to take?", ", ".join(taken), tone, take)
    return (best, *(_of_setup(setup, baseline, reached, comparisons, effects) for setup in setups))


def _of_setup(
    setup: Setup,
    baseline: str,
    reached: Sequence[Reach],
    comparisons: Sequence[tuple[int, Comparison]],
    effects: Sequence[tuple[int, Effect]],
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
        Finding(Severity.INFO, f"{words.verb(each)}: {words.on(nodes)}{words.effect(each).removeprefix(own)}")
        for nodes, each in effects
        if each.setup == setup.name
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
