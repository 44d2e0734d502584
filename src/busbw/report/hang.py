"""Which ranks the others wait for, in lines: of our own runs and of other jobs alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from busbw.model.hang import HangAnswer

_MOST_ROWS: Final = 20


def hang_lines(answer: HangAnswer) -> Iterator[str]:
    """The table of ranks by state, the evidence and what to do; what it comes to goes before."""
    if answer.states:
        shown = answer.states[:_MOST_ROWS]
        rows = [
            ("ranks", "where", "state", "last operation"),
            *((_ranges(each.ranks), each.where, each.state, each.last) for each in shown),
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        yield ""
        for row in rows:
            yield "  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
        if answer.states != shown:
            yield f"and {len(answer.states) - len(shown)} more lines"
        yield ""
    for words in answer.evidence:
        yield f"# evidence {words}"
    if answer.unseen:
        yield f"# not seen {answer.unseen}"
    if answer.next:
        yield f"# next     {answer.next}"


def _ranges(ranks: Sequence[int]) -> str:
    """Ranks in short: 0-2,5."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1][1:] = [rank]
        else:
            runs.append([rank])
    return ",".join("-".join(map(str, run)) for run in runs)
