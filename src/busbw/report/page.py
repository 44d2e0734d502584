"""A report as a page: one HTML file with everything inside, Markdown, or text for a terminal. Pure."""

from __future__ import annotations

import base64
import hashlib
import textwrap
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Final

from busbw._version import __version__
from busbw.model.finding import Severity
from busbw.report.plots import Plot, in_page, require, svg
from busbw.report.text import Form, Line, table_lines
from busbw.report.text_plots import plot_lines
from busbw.report.view import Card, ReportView, RunView

_TEMPLATES: Final = "busbw.report"


def html_text(report: ReportView) -> str:
    """The page. It loads nothing: its policy forbids it. Raises UsageError without busbw[analysis]."""
    require()
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template), autoescape=True, undefined=jinja2.StrictUndefined
    )
    script = _template("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("report.html.j2").render(
        report=report,
        pictures={plot.name: svg(plot, in_page) for plot in report.every_plot},
        css=_template("report.css"),
        script=script,
        script_hash=f"sha256-{digest}",
        version=__version__,
    )


def _template(name: str) -> str:
    return (resources.files(_TEMPLATES) / "templates" / name).read_text(encoding="utf-8")


def markdown_text(report: ReportView) -> str:
    """Verdicts and tables, for issues and wikis."""
    lines = [f"# busbw: {report.title}", ""]
    for run in report.runs:
        lines += [f"## {run.name}", "", *_verdicts(run), ""]
    for plot in report.every_plot:
        lines += [f"### {plot.title}", "", plot.note, "", *_table(plot), ""]
    return "\n".join(lines)


def _verdicts(run: RunView) -> Iterator[str]:
    yield from (f"- {name}: {_cell(value)}" for name, value in run.facts)
    if not run.cards:
        return
    yield ""
    yield "| question | answer | why |"
    yield "|---|---|---|"
    for card in run.cards:
        claims = [
            ("" if each.severity is Severity.INFO else f"**{each.severity.value}**: ") + each.claim
            for each in card.notes
        ]
        yield f"| {_cell(card.title)} | {_cell(card.answer)} | {_cell('; '.join(claims))} |"


def _table(plot: Plot) -> Iterator[str]:
    yield _line(plot.table.head)
    yield "|" + "---|" * len(plot.table.head)
    yield from map(_line, plot.table.rows)
    if plot.table.notes:
        yield ""
        yield from (f"- {_cell(note)}" for note in plot.table.notes)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# ---- for a terminal ---------------------------------------------------------------------------------------

_WORD_COLUMNS: Final = 10


def text_lines(report: ReportView, form: Form, plots: Sequence[Plot] | None = None) -> Iterator[Line]:
    """The whole report, or only these plots of it."""
    if plots is None:
        for run in report.runs:
            yield from _run_lines(run, form)
            yield ()
        plots = report.every_plot
    for at, plot in enumerate(plots):
        yield from ((),) if at else ()
        yield from plot_lines(plot, form)
        yield ()
        yield from table_lines(plot.table, form)


def _run_lines(run: RunView, form: Form) -> Iterator[Line]:
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
    wrapped = textwrap.wrap(text, form.columns - _WORD_COLUMNS - 1, break_on_hyphens=False) or [""]
    for at, line in enumerate(wrapped):
        yield ((f"{word if at == 0 else '':<{_WORD_COLUMNS}} ", colour), (line, ""))
