"""What both front doors print beside their tables: errors that name the flags of the tool, not those of
`busbw run`, and notes that the numbers need.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from busbw.errors import BusbwError
from busbw.model.event import Event
from busbw.model.mark import conditions_of, meaning
from busbw.model.plan import Plan
from busbw.model.result import CaseResult

_FLAG: Final = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
# Variables of `busbw run` that say where and with what to measure; the doors read them, as they have no flags
# for it. A value that is joined (srun --mpi=pmix) belongs to another program.
_VARIABLE: Final = re.compile(
    r"(?<![\w-])--(backend|world|mpi)(?![\w=-])(?: (auto|nccl|mpi|null|solo|none|mpich|openmpi)\b)?"
)
_TWICE: Final = re.compile(r"\b(\w+) or \1\b")


def renamed(text: str, flags: Mapping[str, str]) -> str:
    """The text with the flags of `busbw run` as the door calls them."""
    text = _VARIABLE.sub(
        lambda match: f"BUSBW_{match[1].upper()}" + (f"={match[2]}" if match[2] else ""), text
    )
    text = _FLAG.sub(lambda match: flags.get(match[0], match[0]), text)
    return _TWICE.sub(r"\1", text)  # a flag and the variable that stands for it


def renamed_event(item: Event, flags: Mapping[str, str]) -> Event:
    """An error event with the door's flags."""
    return {
        **item,
        "message": renamed(str(item["message"]), flags),
        "hint": renamed(str(item["hint"] or ""), flags),
    }


@contextmanager
def in_words_of(flags: Mapping[str, str]) -> Iterator[None]:
    """Errors raised inside name the door's flags."""
    try:
        yield
    except BusbwError as error:
        error.message, error.hint = renamed(error.message, flags), renamed(error.hint, flags)
        raise


def result_notes(plan: Plan, results: Sequence[CaseResult], tool: str) -> list[str]:
    """What the conditions and marks of results mean, and how many samples are in none of their times."""
    marks = Counter(mark for result in results for mark in result.marks)
    notes = list(conditions_of((plan.cases[result.case], result) for result in results))
    notes += [
        f"marked {mark}, {count} of {len(results)} cases: {meaning(mark)}" for mark, count in marks.items()
    ]
    excluded = [result.excluded for result in results if result.excluded]
    if excluded:
        notes.append(
            f"{sum(excluded)} samples of {len(excluded)} cases were left out of the times, because a rank was"
            f" descheduled or a clock stepped; {tool} would count them"
        )
    return notes
