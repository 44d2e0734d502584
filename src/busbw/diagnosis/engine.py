"""All rules over one run, question after question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from busbw.diagnosis import algorithm, expected, links, ranks, variance, whole
from busbw.diagnosis.subject import Subject
from busbw.errors import ExitCode
from busbw.model.conclusion import Answer, Conclusion, Question
from busbw.model.finding import Severity

Rule = Callable[[Subject], Iterable[Conclusion]]
"""Conclusions of one question, at least one: where the data say nothing, one that is not observable."""

RULES: Final[Mapping[Question, Rule]] = {
    Question.WHOLE: whole.conclusions,
    Question.EXPECTED: expected.conclusions,
    Question.LINKS: links.conclusions,
    Question.ALGORITHM: algorithm.conclusions,
    Question.VARIANCE: variance.conclusions,
    Question.RANKS: ranks.conclusions,
}
# The worst first: what a question's conclusions say together.
_ORDER: Final = (Answer.NO, Answer.UNDECIDED, Answer.YES, Answer.NOT_OBSERVABLE)


def diagnose(subject: Subject) -> tuple[Conclusion, ...]:
    """What the run's data say to every question."""
    return tuple(conclusion for rule in RULES.values() for conclusion in rule(subject))


def answer(question: Question, conclusions: Sequence[Conclusion]) -> Answer:
    """The answer to one question: that of its worst conclusion."""
    given = {each.answer for each in conclusions if each.question is question}
    return next((each for each in _ORDER if each in given), Answer.NOT_OBSERVABLE)


def exit_code(conclusions: Sequence[Conclusion]) -> ExitCode:
    """1 where something is wrong or may be, 3 where nothing could be told of its numbers, else 0."""
    if any(each.severity is not Severity.INFO for each in conclusions):
        return ExitCode.BAD_VERDICT
    of_numbers = (each for each in conclusions if each.question is not Question.WHOLE)
    told = any(each.answer in (Answer.YES, Answer.NO) for each in of_numbers)
    return ExitCode.OK if told else ExitCode.UNDECIDED
