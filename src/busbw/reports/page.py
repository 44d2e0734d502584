"""A report as a page: one HTML file with everything inside, and as Markdown."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Final

from busbw._version import __version__
from busbw.model.finding import Severity
from busbw.reports.plots import Plot, in_page, require, svg
from busbw.reports.view import ReportView, RunView

_TEMPLATES: Final = "busbw.reports"


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
