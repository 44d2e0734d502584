"""A report as a page: one HTML file with everything inside. Pure."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from itertools import groupby
from typing import Final

from busbw._version import __version__
from busbw.judge.expectation import Judgement
from busbw.report.plots import Plot, Table, figures, in_page, names_of, require, svg
from busbw.report.plots_of_run import MARKS
from busbw.report.view import ReportView

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
