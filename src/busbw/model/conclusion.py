"""A conclusion: a finding about a run that has ended, as an answer to one of six questions."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from busbw.model.finding import Finding


class Question(StrEnum):
    """What is asked of every run, in this order. A yes is good news."""

    WHOLE = "whole"
    EXPECTED = "expected"
    LINKS = "links"
    ALGORITHM = "algorithm"
    VARIANCE = "variance"
    RANKS = "ranks"


QUESTIONS: Final = {
    Question.WHOLE: "Is the run whole?",
    Question.EXPECTED: "Is the number to be expected?",
    Question.LINKS: "Were all links used?",
    Question.ALGORITHM: "Is the algorithm known, and the library's own choice?",
    Question.VARIANCE: "Are the times steady?",
    Question.RANKS: "Is every rank the same?",
}


class Answer(StrEnum):
    """What a run's data say to a question."""

    YES = "yes"
    NO = "no"
    UNDECIDED = "undecided"  # they say something, and not enough
    NOT_OBSERVABLE = "not observable"  # they say nothing
    ASIDE = "aside"  # of one conclusion: worth knowing, and no answer


@dataclass(frozen=True)
class Fact:
    """One value that a conclusion stands on. ``source`` says where it was read or how it was computed."""

    name: str
    value: float | int | str
    unit: str = ""
    source: str = ""


@dataclass(frozen=True)
class Conclusion(Finding):
    """``check`` is its stable id, ``question.what``. ``case`` is the case of the plan that shows it best,
    None where it is of no single one. ``error`` as severity means: the numbers are wrong, or far from what
    this machine can do. A NO is a warning at least: what is only noted turns no answer.
    """

    answer: Answer = Answer.NOT_OBSERVABLE
    facts: tuple[Fact, ...] = ()
    case: int | None = None

    @property
    def question(self) -> Question:
        """The question that it answers, by its ``check``."""
        return Question(self.check.partition(".")[0])
