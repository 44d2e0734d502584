"""Which ranks the others wait for, in lines: of our own runs and of other jobs alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from busbw.model.hang import HangAnswer
from busbw.report.fields import aligned
from busbw.units import ranges

_MOST_ROWS: Final = 20


def hang_lines(answer: HangAnswer) -> Iterator[str]:
    """The table of ranks by state, the evidence and what to do; what it comes to goes before."""
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
