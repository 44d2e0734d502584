"""A report as text: Markdown for issues and wikis, which a terminal shows as well. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from busbw.model.finding import Severity
from busbw.report.fields import folded
from busbw.report.plots import Plot, Table, figures
from busbw.report.text_plots import drawing
from busbw.report.view import Part, ReportView

_DRAWN: Final = 110  # columns of a drawing at most


def report_lines(report: ReportView, columns: int) -> Iterator[str]:
    """The whole report. Prose, tables and drawings have so many columns; titles and cells stay whole."""
    for at, part in enumerate(report.parts):
        yield from _part(part, "##" if at else "#", columns)


def plot_lines(plots: Sequence[Plot], columns: int) -> Iterator[str]:
    """Only these plots: titles and notes, drawings, and the tables that they have or share."""
    for own, tables in figures(plots):
        yield from (f"### {' and '.join(plot.title for plot in own)}", "")
        for plot in own:
            yield from (*folded(plot.note, columns), "")
            if drawn := drawing(plot, min(columns, _DRAWN)):
                yield from ("```", *drawn, "```", "")
        for table in tables:
            yield from (*_table(table, columns), "")
            if table.notes:
                yield from (*(line for note in table.notes for line in _item(note, columns)), "")


def _part(part: Part, level: str, columns: int) -> Iterator[str]:
    yield f"{level} {f'{part.name}: ' if part.name else ''}{part.headline.text}"
    yield ""
    if part.headline.verdict:
        yield from (*folded(part.headline.verdict, columns), "")
    if part.problems:
        yield from (line for text in part.problems for line in _item(f"**problem**: {text}", columns))
        yield ""
    if part.answers is not None:
        yield from (*_table(part.answers, columns), "")
    yield from plot_lines(part.curves, columns)
    for check in part.checks:  # a question, its answer and the claim that decides it
        yield from _item(f"**{check.title}** {check.answer}{check.claim and f': {check.claim}'}", columns)
        for each in check.notes:  # what it stands on
            word = "" if each.severity is Severity.INFO else f"{each.severity.value}: "
            claim = "" if each.claim == check.claim else f"{word}{each.claim}"
            for text in filter(None, (claim, each.evidence, each.hint and f"hint: {each.hint}")):
                yield from _item(text, columns, "  ")
    yield from ("",) if part.checks else ()
    if part.unseen:
        yield from (*folded(f"Not observed: {part.unseen}.", columns), "")
    yield from plot_lines(part.evidence, columns)
    if part.facts:
        yield from (*(line for name, text in part.facts for line in _item(f"{name}: {text}", columns)), "")


def _item(text: str, columns: int, indent: str = "") -> list[str]:
    return folded(text.replace("\n", " "), columns, f"{indent}- ", f"{indent}  ")


def _table(table: Table, columns: int) -> Iterator[str]:
    """Every number. No cell is cut; columns that have no room go on below, beside the keys again."""
    rows = [
        [text.replace("|", "\\|").replace("\n", " ") for text in row] for row in (table.head, *table.rows)
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for at, part in enumerate(_parts(widths, table.keys, columns)):
        yield from ("",) if at else ()
        chosen = [*range(table.keys), *part]
        lines = [
            _row([f"{row[at]:{'<' if at < table.keys else '>'}{widths[at]}}" for at in chosen])
            for row in rows
        ]
        yield from (lines[0], _row(["-" * widths[at] for at in chosen]), *lines[1:])


def _parts(widths: Sequence[int], keys: int, columns: int) -> Iterator[list[int]]:
    """Columns of values that fit beside the keys, one at least."""
    room = columns - len(_row([" " * width for width in widths[:keys]]))
    part: list[int] = []
    left = room
    for at in range(keys, len(widths)):
        if part and widths[at] + 3 > left:
            yield part
            part, left = [], room
        part.append(at)
        left -= widths[at] + 3
    yield part


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
