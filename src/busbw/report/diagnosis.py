"""A diagnosis as text and as JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from busbw.judge.diagnose.engine import decisive
from busbw.model.conclusion import QUESTIONS, Answer, Conclusion, Question
from busbw.model.finding import Severity, worst_first
from busbw.model.record import RunRecord
from busbw.report.events import SEVERITY_WORDS
from busbw.report.fields import folded

SCHEMA: Final = 1
WIDTH: Final = 100
_INDENT: Final = 10


def lines(
    record: RunRecord,
    answers: Mapping[Question, Answer],
    conclusions: Sequence[Conclusion],
    columns: int = WIDTH,
) -> Iterator[str]:
    """A line a question: the answer, and the conclusion that decides it. Then what else is wrong, and what to
    do next.
    """
    yield _short(f"# run      {describe_run(record)}", columns)
    shown: list[Conclusion] = []
    for question, given in answers.items():
        decides = decisive(question, given, conclusions)
        shown += [decides] if decides is not None else []
        claim = decides.claim if decides is not None else QUESTIONS[question]
        yield _short(f"{question.value:<{_INDENT}} {given.value.upper():<15} {claim}", columns)
    warned = [each for each in worst_first(conclusions) if each.severity is not Severity.INFO]
    others = (each for each in warned if each not in shown)
    yield from (_short(f"# {each.severity.value:<8} {each.claim}", columns) for each in others)
    doubted = [each for each in shown if each.answer is not Answer.YES]
    hints = dict.fromkeys(each.hint for each in (*warned, *doubted) if each.hint)
    # What commands call the run: of a log that is not kept as one its path.
    path = record.source.path if record.source is not None else ""
    word = path if path and Path(path).name == record.run_id else record.run_id or "RUN"
    step = next(iter(hints), "nothing to do").replace(" RUN", f" {word}")
    yield from folded(f"# next     {step}; --all shows the evidence", columns, rest="#          ")


def _short(text: str, columns: int) -> str:
    """One line, which ends at a word; the whole is with --all."""
    return text if len(text) <= columns else text[: columns - 4].rpartition(" ")[0] + " ..."


def evidence_lines(
    record: RunRecord,
    answers: Mapping[Question, Answer],
    conclusions: Sequence[Conclusion],
    columns: int = WIDTH,
) -> Iterator[str]:
    """Question after question: the answer, and all that it stands on. Prose is as wide as ``columns``."""
    yield f"# run      {describe_run(record)}"
    for question, text in QUESTIONS.items():
        yield f"{question.value:<{_INDENT}} {answers[question].value.upper():<15} {text}"
        for each in conclusions:
            if each.question is not question:
                continue
            unseen = each.severity is Severity.INFO and each.answer is Answer.NOT_OBSERVABLE
            word = "-" if unseen else SEVERITY_WORDS[each.severity]
            for said in filter(None, (each.claim, each.evidence, each.hint and f"hint: {each.hint}")):
                for line in folded(said, columns - _INDENT - 1):
                    yield f"  {word:<{_INDENT - 2}} {line}"
                    word = ""


def describe_run(record: RunRecord) -> str:
    """Which run it is, of whom, with what: one line."""
    words = [record.run_id or (record.source.path if record.source is not None else "run")]
    if record.world is not None:
        hosts = len(record.world.known_hosts)
        words.append(f"{record.world.size} ranks" + (f" on {hosts} hosts" if hosts > 1 else ""))
        if record.world.ranks and record.world.ranks[0].library:
            rank = record.world.ranks[0]
            words.append(f"{rank.library} {rank.library_version}".strip())
    if record.source is not None:
        words.append(f"imported from {record.source.tool}")
    return ", ".join(words)


def json_text(
    record: RunRecord, answers: Mapping[Question, Answer], conclusions: Sequence[Conclusion], code: int
) -> str:
    """The same for programs. ``check`` of a conclusion is its stable id."""
    body = {
        "schema": SCHEMA,
        "run_id": record.run_id,
        "exit_code": code,
        "answers": {question.value: answers[question].value for question in QUESTIONS},
        "conclusions": [{**asdict(each), "question": each.question} for each in conclusions],
    }
    return json.dumps(body, indent=1) + "\n"
