"""All rules over one run, question after question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from busbw.errors import ExitCode
from busbw.judge.diagnose import algorithm, completeness, expected, links, profiled, ranks, variance
from busbw.judge.diagnose.subject import Subject
from busbw.model.conclusion import Answer, Conclusion, Question
from busbw.model.finding import Severity, worst_first

Rule = Callable[[Subject], Iterable[Conclusion]]
"""Conclusions of one question; of the first rule of each at least one: where the data say nothing, one that
is not observable."""

RULES: Final[Mapping[Question, tuple[Rule, ...]]] = {
    Question.WHOLE: (completeness.conclusions,),
    Question.EXPECTED: (expected.conclusions,),
    Question.LINKS: (links.conclusions, profiled.links),
    Question.ALGORITHM: (algorithm.conclusions, profiled.algorithm),
    Question.VARIANCE: (variance.conclusions, profiled.variance),
    Question.RANKS: (ranks.conclusions, profiled.ranks),
}
# The worst first: what a question's conclusions say together.
_OF_SAMPLES: Final = (Question.VARIANCE, Question.RANKS)
_ORDER: Final = (Answer.NO, Answer.UNDECIDED, Answer.YES, Answer.NOT_OBSERVABLE)


def diagnose(subject: Subject) -> tuple[Conclusion, ...]:
    """What the run's data say to every question."""
    found: list[Conclusion] = []
    for question, rules in RULES.items():
        for rule in rules:
            if question in _OF_SAMPLES and subject.launches:
                found += _of_launches(rule, subject.launches)
            else:
                found += rule(subject)
    return tuple(found)


def warn(subject: Subject) -> tuple[Conclusion, ...]:
    """Those that the answer at the end of a run may warn of, and none that it would not show; what a profiler
    exported comes later.
    """
    rules = (expected.conclusions, links.conclusions, ranks.conclusions, variance.unstable)
    return tuple(each for rule in rules for each in rule(subject))


def _of_launches(rule: Rule, launches: Sequence[Subject]) -> list[Conclusion]:
    """Of every check its worst conclusion, and which launch it is of."""
    order = (*_ORDER, Answer.ASIDE)
    worst: dict[str, tuple[int, Conclusion]] = {}
    for number, launch in enumerate(launches, 1):
        for each in rule(launch):
            known = worst.get(each.check)
            if known is None or order.index(each.answer) < order.index(known[1].answer):
                worst[each.check] = (number, each)
    where = "launch {} of " + str(len(launches)) + ", the worst for this question"
    return [
        replace(each, evidence="; ".join(filter(None, (each.evidence, where.format(number)))))
        for number, each in worst.values()
    ]


def answer(question: Question, conclusions: Sequence[Conclusion]) -> Answer:
    """The answer to one question: that of its worst conclusion."""
    given = {each.answer for each in conclusions if each.question is question}
    return next((each for each in _ORDER if each in given), Answer.NOT_OBSERVABLE)


def decisive(question: Question, given: Answer, conclusions: Sequence[Conclusion]) -> Conclusion | None:
    """The worst conclusion with the answer that was ``given`` to a question; None where no one has it."""
    own = (each for each in worst_first(conclusions) if each.question is question)
    return next((each for each in own if each.answer is given), None)


def exit_code(conclusions: Sequence[Conclusion]) -> ExitCode:
    """1 where something is wrong or may be, 3 where nothing can be said of its numbers, else 0."""
    if any(each.severity is not Severity.INFO for each in conclusions):
        return ExitCode.BAD_VERDICT
    of_numbers = (each for each in conclusions if each.question is not Question.WHOLE)
    told = any(each.answer in (Answer.YES, Answer.NO) for each in of_numbers)
    return ExitCode.OK if told else ExitCode.UNDECIDED
