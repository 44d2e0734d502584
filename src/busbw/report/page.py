"""A report as a page: one HTML file with everything inside, Markdown, or text for a terminal. Pure."""

from __future__ import annotations

import base64
import hashlib
import textwrap
from collections.abc import Iterator, Sequence
from importlib import resources
from itertools import groupby
from typing import Final

from busbw._version import __version__
from busbw.judge.expectation import Judgement
from busbw.model.finding import Finding, Severity
from busbw.report.plots import Plot, Table, in_page, names_of, require, svg
from busbw.report.sizes import MARKS
from busbw.report.text import Form, Line, table_lines
from busbw.report.text_plots import plot_lines
from busbw.report.view import Check, Headline, Part, ReportView

_TEMPLATES: Final = "busbw.report"
_IN_PICTURE: Final = ("heat", "bars")  # kinds of plots that have their numbers in them
_BAD: Final = ("WRONG", "FAILED")
_BREAK: Final = "\N{ZERO WIDTH SPACE}"  # where a mark may go on in the next line
_MOST_IN_HALF: Final = 12  # columns of a map
_SHORT: Final = 24  # letters of a column's name that many fit beside


def html_text(report: ReportView) -> str:
    """The page. It loads nothing: its policy forbids it. Raises UsageError without busbw[analysis]."""
    require()
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {
        "figures": figures,
        "halves": _halves,
        "wide": _wide,
        "crowded": _crowded,
        "heads": _heads,
        "css_class": _css_class,
    }
    script = _template("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("report.html.j2").render(
        report=report,
        pictures={
            (plot.name, scale): svg(plot, in_page, scale)
            for plot in report.every_plot
            for scale in plot.scales
        },
        in_picture=_IN_PICTURE,
        css=_template("report.css"),
        script=script,
        script_hash=f"sha256-{digest}",
        version=__version__,
    )


def figures(plots: Sequence[Plot]) -> list[tuple[list[Plot], list[Table]]]:
    """Neighbours that are of one thing together, and what tables they have."""
    made = []
    for _, own in groupby(plots, key=lambda plot: (plot.of, plot.kind == "curve" or plot.what)):
        together = list(own)
        made.append((together, list({id(plot.table): plot.table for plot in together}.values())))
    return made


def _halves(cell: str) -> tuple[str, str]:
    """A number, and what it is uncertain by."""
    number, _, half = cell.partition(" +-")
    return number.replace("(", f"{_BREAK}(").replace("+-", "\u00b1"), f"\u00b1{half}" if half else ""


def _wide(plots: Sequence[Plot]) -> bool:
    """Whether half of a printed page is too narrow to read the cells of a map."""
    return any(plot.kind == "heat" and len(names_of(plot)[0]) > _MOST_IN_HALF for plot in plots)


def _css_class(name: str, cell: str) -> str:
    """What a cell is, below the column of this name."""
    is_bad = cell in _BAD or cell.endswith(f" {Judgement.BELOW}")
    return "bad" if is_bad else "marks" if name == MARKS else ""


def _crowded(table: Table) -> bool:
    """Whether there are more columns than long names fit beside each other."""
    return len(table.head) > 4 and max(map(len, table.head[1:])) > _SHORT


def _heads(table: Table) -> tuple[list[tuple[str, int]], list[str]]:
    """What neighbouring columns share, with how many they are, and the names below; none above where no
    column shares anything.
    """
    parts = [name.rpartition("\n") for name in table.head]
    above = [(shared, len(list(own))) for shared, own in groupby(shared for shared, _, _ in parts)]
    return (above if any(shared for shared, _ in above) else []), [name for _, _, name in parts]


def _template(name: str) -> str:
    return (resources.files(_TEMPLATES) / "templates" / name).read_text(encoding="utf-8")


def markdown_text(report: ReportView) -> str:
    """Answers and tables, for issues and wikis."""
    lines: list[str] = []
    for part in report.parts:
        lines += [f"{'##' if lines else '#'} {_name(part)}{_sentence(part.headline)}", ""]
        lines += [f"- **problem**: {_cell(text)}" for text in part.problems] + [""]
        if part.answers is not None:
            lines += [*_table(part.answers), ""]
        if part.checks:
            lines += ["| question | answer | why |", "|---|---|---|", *map(_check, part.checks), ""]
        lines += [f"Not observed: {part.unseen}.", ""] if part.unseen else []
        for own, tables in figures(part.plots):
            titles = " and ".join(plot.title for plot in own)
            lines += [f"### {titles}", "", " ".join(plot.note for plot in own), ""]
            lines += [line for table in tables for line in (*_table(table), "")]
        lines += [f"- {name}: {_cell(value)}" for name, value in part.facts] + [""]
    return "\n".join(lines)


def _name(part: Part) -> str:
    return f"{part.name}: " if part.name else ""


def _sentence(headline: Headline) -> str:
    return ": ".join(filter(None, (headline.text, headline.verdict)))


def _check(check: Check) -> str:
    claims = filter(None, (check.claim, *(_claim(each) for each in check.notes if each.claim != check.claim)))
    return f"| {_cell(check.title)} | {_cell(check.answer)} | {_cell('; '.join(claims))} |"


def _claim(finding: Finding) -> str:
    return ("" if finding.severity is Severity.INFO else f"{finding.severity.value}: ") + finding.claim


def _table(table: Table) -> Iterator[str]:
    yield _line(table.head)
    yield "|" + "---|" * len(table.head)
    yield from map(_line, table.rows)
    if table.notes:
        yield ""
        yield from (f"- {_cell(note)}" for note in table.notes)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# ---- for a terminal ---------------------------------------------------------------------------------------

_WORD_COLUMNS: Final = 9


def text_lines(report: ReportView, form: Form, plots: Sequence[Plot] | None = None) -> Iterator[Line]:
    """The whole report, or only these plots of it."""
    if plots is not None:
        yield from _plots(plots, form)
        return
    for at, part in enumerate(report.parts):
        yield from ((),) if at else ()
        yield from _part(part, form)


def _plots(plots: Sequence[Plot], form: Form) -> Iterator[Line]:
    for at, (own, tables) in enumerate(figures(plots)):
        yield from ((),) if at else ()
        for plot in own:
            yield from plot_lines(plot, form)
            yield ()
        for position, table in enumerate(tables):
            yield from ((),) if position else ()
            yield from table_lines(table, form)


def _part(part: Part, form: Form) -> Iterator[Line]:
    tone = part.headline.tone.value
    for line in textwrap.wrap(f"{_name(part)}{part.headline.text}", form.columns):
        yield ((line, "bold"),)
    for line in textwrap.wrap(part.headline.verdict, form.columns):
        yield ((line, tone if tone in _TONES else ""),)
    for text in part.problems:
        yield from _hanging("problem", text, form, "no")
    for *of, verdict in part.answers.rows if part.answers is not None else ():
        yield from _hanging("answer", f"{', '.join(of)}: {verdict}", form, "soft")
    if part.curves:
        yield ()
        yield from _plots(part.curves, form)
    for check in part.checks:
        yield ()
        yield from _check_lines(check, form)
    if part.unseen:
        yield ()
        yield from _hanging("unseen", part.unseen, form, "soft")
    if part.evidence:
        yield ()
        yield from _plots(part.evidence, form)
    yield ()
    for name, value in part.facts:
        yield from _hanging(name, value, form, "soft")


_TONES: Final = ("yes", "no", "undecided")


def _check_lines(check: Check, form: Form) -> Iterator[Line]:
    tone, answer = check.tone.value, check.answer.upper()
    for line in textwrap.wrap(f"{check.title}  {answer}", form.columns) or [""]:
        head, found, tail = line.partition(answer)
        yield ((head, "bold"), (found, tone if tone in _TONES else "bold"), (tail, ""))
    if check.claim:
        yield from _hanging("", check.claim, form, "")
    for each in check.notes:
        word = "note" if each.severity is Severity.INFO else each.severity.value
        colour = {Severity.ERROR: "no", Severity.WARNING: "undecided", Severity.INFO: "soft"}[each.severity]
        if each.claim != check.claim:
            yield from _hanging(f"  {word}", each.claim, form, colour)
        for text in filter(None, (each.evidence, f"hint: {each.hint}" if each.hint else "")):
            yield from _hanging("", text, form, "")


def _hanging(word: str, text: str, form: Form, colour: str) -> Iterator[Line]:
    """A word, and its text beside it."""
    wrapped = textwrap.wrap(text, form.columns - _WORD_COLUMNS - 1, break_on_hyphens=False) or [""]
    for at, line in enumerate(wrapped):
        yield ((f"{word if at == 0 else '':<{_WORD_COLUMNS}} ", colour), (line, ""))
