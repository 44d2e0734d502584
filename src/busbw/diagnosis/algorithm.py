"""Which algorithm ran, by what the library was seen to say; and whether settings took the choice from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from busbw.diagnosis import forced, profiled, tools
from busbw.diagnosis.subject import Subject
from busbw.model.choice import Choice
from busbw.model.collective import COLLECTIVES
from busbw.model.conclusion import Answer, Conclusion, Fact, Question
from busbw.model.finding import Severity
from busbw.model.result import CaseResult
from busbw.model.tuning_line import tuning_lines
from busbw.units import format_size

_QUESTION = Question.ALGORITHM


class _Seen(NamedTuple):
    """What was seen of one case; ``channels`` 0 where nobody told."""

    operation: str
    size: int
    words: str
    channels: int = 0


def conclusions(subject: Subject) -> Iterator[Conclusion]:
    """See ``diagnosis.engine.Rule``."""
    yield from _observed(subject)
    yield from forced.conclusions(subject)
    yield from profiled.algorithm(subject)


def _hint(subject: Subject) -> str:
    record = subject.record
    if record.source is not None:
        return tools.hint(record.source.tool, _QUESTION)
    if record.plan.backend != "nccl":
        return "MPI libraries do not tell; their own settings for a collective say what they were told to use"
    if "algorithm" in record.plan.evidence:
        return "NCCL was asked and said nothing: it takes 2.23 or newer, or its log (NCCL_DEBUG=INFO)"
    return "measure with --evidence algorithm (NCCL 2.23 and newer)"


def _observed(subject: Subject) -> Iterator[Conclusion]:
    choices = [result.choice for _, result in subject.timed if result.choice is not None]
    seen = [
        _Seen(case.collective, case.size_bytes, *_words(result))
        for case, result in subject.timed
        if _words(result)[0]
    ]
    source = f"NCCL's {choices[0].source} of one untimed call" if choices else "the record"
    if lines := _from_log(subject):
        source, seen = "lines of NCCL in the log", lines
    if not seen:
        yield Conclusion(
            Severity.INFO,
            "which algorithm ran was not observed, and nothing is inferred",
            hint=_hint(subject),
            check="algorithm.observed",
            question=_QUESTION,
        )
        return
    if differing := [choice for choice in choices if choice.other_ranks]:
        yield _differing(differing, len(choices))
    for operation, rows in groupby(sorted(seen), key=lambda row: row.operation):
        ranges = list(_ranges(list(rows)))
        yield Conclusion(
            Severity.INFO,
            f"{operation}: " + "; ".join(_range_words(each) for each in ranges),
            check="algorithm.observed",
            question=_QUESTION,
            answer=Answer.YES,
            facts=tuple(
                Fact(
                    f"{operation} {format_size(each[0].size)} to {format_size(each[-1].size)}",
                    _how(each),
                    source=source,
                )
                for each in ranges
            ),
        )


def _differing(choices: Sequence[Choice], cases: int) -> Conclusion:
    """Ranks that did not do the same: NCCL's own agreement is broken, or one rank's settings are others."""
    return Conclusion(
        Severity.WARNING,
        f"in {len(choices)} of {cases} cases ranks told another algorithm, protocol or number of channels",
        evidence=f"up to {max(choice.other_ranks for choice in choices)} ranks differ from rank 0",
        hint="compare the ranks' variables and libraries: `busbw preflight`",
        check="algorithm.ranks",
        question=_QUESTION,
        answer=Answer.NO,
        facts=(Fact("cases", len(choices), f"of {cases}"),),
    )


def _words(result: CaseResult) -> tuple[str, int]:
    """How a case was done, and over how many channels (0 where not told). Sends and receives have no
    algorithm, and are told by their names.
    """
    choice = result.choice
    if choice is None:
        return result.algorithm, 0
    pairs = " and ".join(choice.functions) if set(choice.functions) <= {"Send", "Recv"} else ""
    return result.algorithm or pairs, choice.channels or 0


# NCCL's names of functions without capitals, and ours.
_OURS: Final = {row.name.replace("_", ""): row.name for row in COLLECTIVES}


def _from_log(subject: Subject) -> list[_Seen]:
    """What lines of NCCL in a log tell of all calls, also of those that are no case of the table. Those
    without a function are of the log's operation.
    """
    source = subject.record.source
    told = source.evidence.get("algorithm", ()) if source is not None else ()
    own = subject.record.plan.cases[0].collective if subject.record.plan.cases else ""
    seen = []
    for line in tuning_lines("\n".join(told)):
        size = line.size_bytes(subject.together)
        name = _OURS.get(line.function.lower(), line.function) or own
        seen.append(
            _Seen(
                name if size is not None else f"{name} (one rank's part)",
                line.told_bytes if size is None else size,
                line.choice.words,
                line.choice.channels or 0,
            )
        )
    return seen


def _ranges(seen: list[_Seen]) -> Iterator[list[_Seen]]:
    """Neighbouring sizes of one algorithm."""
    for _, group in groupby(sorted(set(seen)), key=lambda each: each.words):
        yield list(group)


def _how(seen: list[_Seen]) -> str:
    counts = [each.channels for each in seen if each.channels]
    if not counts:
        return seen[0].words
    low, high = min(counts), max(counts)
    many = f"{low} to {high}" if low < high else f"{high}"
    return f"{seen[0].words}, {many} channel{'s' if high > 1 else ''}"


def _range_words(seen: list[_Seen]) -> str:
    low, high = seen[0].size, seen[-1].size
    return f"{_how(seen)} at {format_size(low)}" + (f" to {format_size(high)}" if high > low else "")
