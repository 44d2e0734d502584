"""Events of a run, findings and hangs as values and as lines of text: what every display needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TextIO

from busbw.model.event import Event, error_words
from busbw.model.finding import Severity
from busbw.model.hang import HangAnswer
from busbw.model.plain import from_plain
from busbw.model.plan import Plan
from busbw.model.record import Method, WorldInfo
from busbw.model.result import CaseResult
from busbw.report.fields import aligned, folded
from busbw.units import ranges

_WIDTH: Final = 110
_INDENT: Final = 9  # of what stands below a claim: as wide as the severity
_MOST_ROWS: Final = 20  # of the ranks that hang
SEVERITY_WORDS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def finding_lines(finding: Mapping[str, Any], columns: int | None = None) -> list[str]:
    """What is wrong, from what, what to try; each line begins with #, and no word is cut. ``columns`` are
    those of a terminal.
    """
    word = SEVERITY_WORDS[Severity(finding["severity"])]
    parts = [finding["claim"], finding["evidence"], f"hint: {finding['hint']}" if finding["hint"] else ""]
    width = min(_WIDTH, columns or _WIDTH) - _INDENT - 2
    lines = [line for part in parts if part for line in folded(str(part), width) or [str(part)]]
    return [f"# {word if number == 0 else '':<{_INDENT}}{line}" for number, line in enumerate(lines)]


def show_error(item: Event, err: TextIO) -> None:
    """One error on stderr: what, where, what to try."""
    print(f"error: {error_words(item)}", file=err)
    if item["hint"]:
        print(f"hint: {item['hint']}", file=err)
    if item.get("hang"):
        show_hang(from_plain(HangAnswer, item["hang"]), err)


def hang_lines(answer: HangAnswer) -> Iterator[str]:
    """Which ranks the others wait for, of our own runs and of other jobs alike: a table of ranks by
    state, the evidence and what to do; what it comes to goes before.
    """
    if answer.states:
        shown = answer.states[:_MOST_ROWS]
        rows = [
            ("ranks", "where", "state", "last operation"),
            *((ranges(each.ranks), each.where, each.state, each.last) for each in shown),
        ]
        yield ""
        yield from aligned(rows)
        if answer.states != shown:
            yield f"and {len(answer.states) - len(shown)} more lines"
        yield ""
    for words in answer.evidence:
        yield f"# evidence {words}"
    if answer.unseen:
        yield f"# not seen {answer.unseen}"
    if answer.next:
        yield f"# next     {answer.next}"


def show_hang(answer: HangAnswer, err: TextIO) -> None:
    """Which ranks the others waited for, below the error whose words have the answer and what to do."""
    print(*hang_lines(replace(answer, next="")), sep="\n", file=err)


def show_state(item: Event, err: TextIO) -> None:
    """What an engine says of the job, on stderr."""
    why = f": {item['why']}" if item["why"] else ""
    print(f"job {item['job']}: {item['phase']}{why}", file=err, flush=True)


def read_header(item: Event) -> tuple[Plan, WorldInfo, Method]:
    """The values in a header event."""
    plan = from_plain(Plan, item["plan"])
    return plan, from_plain(WorldInfo, item["world"]), from_plain(Method, item["method"])


def read_result(item: Event) -> CaseResult:
    """The value in a case event."""
    return from_plain(CaseResult, item["result"])
