"""A diagnosis as text and as JSON. Pure."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Final

from busbw.model.conclusion import QUESTIONS, Answer, Conclusion, Question
from busbw.model.finding import Severity
from busbw.model.record import RunRecord

SCHEMA: Final = 1
_WIDTH: Final = 110
_INDENT: Final = 10
_WORDS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: ""}


def lines(
    record: RunRecord, answers: Mapping[Question, Answer], conclusions: Sequence[Conclusion]
) -> Iterator[str]:
    """Question after question: the answer, and what it stands on."""
    yield f"# run      {describe_run(record)}"
    for question, text in QUESTIONS.items():
        yield f"{question.value:<{_INDENT}} {answers[question].value.upper():<15} {text}"
        for each in conclusions:
            if each.question is question:
                yield from _conclusion(each)


def _conclusion(each: Conclusion) -> Iterator[str]:
    texts = [each.claim, each.evidence, f"hint: {each.hint}" if each.hint else ""]
    word = _WORDS[each.severity] or ("-" if each.answer is Answer.NOT_OBSERVABLE else "note")
    for text in filter(None, texts):
        for line in textwrap.wrap(text, _WIDTH - _INDENT - 1, break_long_words=False, break_on_hyphens=False):
            yield f"  {word:<{_INDENT - 2}} {line}"
            word = ""


def describe_run(record: RunRecord) -> str:
    """Which run it is, of whom, with what: one line."""
    words = [record.run_id or (record.source.path if record.source is not None else "run")]
    if record.world is not None:
        hosts = len({rank.host for rank in record.world.ranks})
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
        "conclusions": [asdict(each) for each in conclusions],
    }
    return json.dumps(body, indent=1) + "\n"
