"""A conclusion and how much it weighs: what answers no is a warning."""

from __future__ import annotations

from busbw.model.conclusion import Answer, Conclusion, Fact
from busbw.model.finding import Severity


def concluded(
    claim: str,
    *,
    check: str,
    answer: Answer = Answer.NOT_OBSERVABLE,
    severity: Severity | None = None,
    evidence: str = "",
    hint: str = "",
    rank: int | None = None,
    host: str = "",
    facts: tuple[Fact, ...] = (),
    case: int | None = None,
) -> Conclusion:
    """``severity`` is that of the answer, unless it is given: a warning for NO, else a note."""
    weight = severity or (Severity.WARNING if answer is Answer.NO else Severity.INFO)
    return Conclusion(weight, claim, evidence, hint, rank, host, check, answer=answer, facts=facts, case=case)
