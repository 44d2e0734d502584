"""What both front doors share: errors that name the flags of the tool, not those of `busbw run`, and notes
that the numbers need.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TextIO

from busbw.errors import BusbwError
from busbw.foreign.forms.remarks import condition_and_mark_words
from busbw.model.event import Event, EventKind
from busbw.model.plan import Plan
from busbw.model.result import CaseResult
from busbw.report.display import Display

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


@contextmanager
def in_words_of(flags: Mapping[str, str]) -> Iterator[None]:
    """Errors raised inside name the door's flags."""
    try:
        yield
    except BusbwError as error:
        error.message, error.hint = renamed(error.message, flags), renamed(error.hint, flags)
        raise


class DoorDisplay(Display):
    """A display in the form of another tool, whose ``flags`` errors name, by those of `busbw run`."""

    def __init__(self, flags: Mapping[str, str], out: TextIO, err: TextIO) -> None:
        super().__init__(out, err)
        self._flags = flags
        self._errors: list[str] = []

    def handle(self, item: Event) -> None:
        """See Display."""
        if item["event"] == EventKind.ERROR:
            words = {key: renamed(str(item[key] or ""), self._flags) for key in ("message", "hint")}
            item = {**item, **words}
            self._errors.append(words["message"])
        super().handle(item)

    def _print(self, lines: Iterable[str]) -> None:
        """Whole on a terminal too: the table is the other tool's."""
        self._out.writelines(f"{line}\n" for line in lines)
        self._out.flush()

    def say(self, *notes: str) -> None:
        """What the table has no place for."""
        for text in notes:
            print(f"busbw: {text}", file=self._err, flush=True)


def result_notes(plan: Plan, results: Sequence[CaseResult], tool: str) -> list[str]:
    """What the conditions and marks of results mean, and how many samples are in none of their times."""
    notes = condition_and_mark_words([(plan.cases[result.case], result) for result in results])
    excluded = [result.excluded for result in results if result.excluded]
    if excluded:
        notes.append(
            f"{sum(excluded)} samples of {len(excluded)} cases were left out of the times, because a rank was"
            f" descheduled or a clock stepped; {tool} would count them"
        )
    return notes
