"""A report for a terminal: verdicts first, then every plot in letters with its table. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from busbw.model.finding import Severity
from busbw.reports.canvas import Form, Line
from busbw.reports.cards import Card
from busbw.reports.plots import Plot
from busbw.reports.text_plots import plot_lines
from busbw.reports.text_table import table_lines
from busbw.reports.view import ReportView, RunView

_WORD: Final = 10


def text_lines(report: ReportView, form: Form, plots: Sequence[Plot] | None = None) -> Iterator[Line]:
    """The whole report, or only these plots of it."""
    if plots is None:
        for run in report.runs:
            yield from _run(run, form)
            yield ()
        plots = report.every_plot
    for at, plot in enumerate(plots):
        yield from ((),) if at else ()
        yield from plot_lines(plot, form)
        yield ()
        yield from table_lines(plot.table, form)


def _run(run: RunView, form: Form) -> Iterator[Line]:
    yield ((run.name, "bold"),)
    for name, value in run.facts:
        yield from _hanging(name, value, form, "soft")
    for card in run.cards:
        yield from _card(card, form)


def _card(card: Card, form: Form) -> Iterator[Line]:
    yield ()
    tone = card.tone.value
    lines = textwrap.wrap(f"{card.title}  {card.answer.upper()}", form.columns) or [""]
    answer = card.answer.upper()
    for line in lines:
        head, found, tail = line.partition(answer)
        yield ((head, "bold"), (found, tone if tone in ("yes", "no", "undecided") else "bold"), (tail, ""))
    for each in card.notes:
        word = "note" if each.severity is Severity.INFO else each.severity.value
        colour = {Severity.ERROR: "no", Severity.WARNING: "undecided", Severity.INFO: "soft"}[each.severity]
        yield from _hanging(f"  {word}", each.claim, form, colour)
        for text in filter(None, (each.evidence, f"hint: {each.hint}" if each.hint else "")):
            yield from _hanging("", text, form, "")


def _hanging(word: str, text: str, form: Form, colour: str) -> Iterator[Line]:
    """A word, and its text beside it."""
    wrapped = textwrap.wrap(text, form.columns - _WORD - 1, break_on_hyphens=False) or [""]
    for at, line in enumerate(wrapped):
        yield ((f"{word if at == 0 else '':<{_WORD}} ", colour), (line, ""))
