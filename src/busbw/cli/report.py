"""``busbw report``: runs as one page, as text, as pictures, or in the terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from busbw.cli.report_inputs import shown
from busbw.errors import ExitCode, UsageError
from busbw.reports import page, plots
from busbw.reports.canvas import Form, coloured, plain
from busbw.reports.text_page import text_lines
from busbw.reports.view import ReportView, view

if TYPE_CHECKING:
    from busbw.reports.plots import Plot

TERMINAL: Final = "-"
_PICTURES: Final = (".svg", ".png")
_LETTERS: Final = ".txt"
_TEXTS: Final = (".html", ".md", _LETTERS)
_MOST_COLUMNS: Final = 110
_FEWEST_COLUMNS: Final = 40


def report_command(runs: Sequence[str], output: Path, plot: str) -> ExitCode:
    """Write the report. A picture's format makes one file a plot, or the one that ``plot`` names."""
    suffix = _LETTERS if str(output) == TERMINAL else output.suffix.lower()
    if suffix not in (*_TEXTS, *_PICTURES):
        raise UsageError(
            f"--output {output}: unknown format {suffix or 'without a suffix'}",
            hint=f"name a file that ends in {', '.join((*_TEXTS, *_PICTURES))}, or - for this terminal",
        )
    if plot and suffix not in (*_PICTURES, _LETTERS):
        raise UsageError(
            f"--plot is of pictures, not of {suffix}", hint="write to a .svg, .png or .txt file, or to -"
        )
    if suffix not in (".md", _LETTERS):
        plots.require()
    report = view(shown(runs))
    if suffix == _LETTERS:
        _in_letters(report, output, plot)
        return ExitCode.OK
    if suffix in _TEXTS:
        text = page.html_text(report) if suffix == ".html" else page.markdown_text(report)
        _write(output, text.encode())
        return ExitCode.OK
    for name, path in _pictures(report, output, plot):
        found = next(each for each in report.every_plot if each.name == name)
        data = plots.png(found) if suffix == ".png" else plots.svg(found, plots.on_paper).encode()
        _write(path, data)
    return ExitCode.OK


def _in_letters(report: ReportView, output: Path, wanted: str) -> None:
    """To a terminal as it can show it; to a file or a pipe as plain ASCII of 80 columns."""
    chosen: tuple[Plot, ...] | None = None
    if wanted:
        chosen = tuple(each for each in report.every_plot if wanted in each.name)
        if not chosen:
            raise _unfit(wanted, 0, report)
    if str(output) != TERMINAL:
        text = "\n".join(map(plain, text_lines(report, Form(), chosen)))
        _write(output, f"{text}\n".encode())
        return
    form = form_of(sys.stdout)
    lines = text_lines(report, form, chosen)
    if not sys.stdout.isatty():
        print(*(_sayable(plain(line), sys.stdout) for line in lines), sep="\n")
        return
    from rich.console import Console

    # No colours where NO_COLOR or the terminal's own kind says so; soft_wrap: lines have their length.
    console = Console(highlight=False)
    for line in lines:
        console.print(
            coloured([(_sayable(text, sys.stdout), colour) for text, colour in line]), soft_wrap=True
        )


def form_of(out: TextIO) -> Form:
    """What a stream can show: 80 columns of ASCII where it is no terminal."""
    if not out.isatty():
        return Form()
    columns = min(_MOST_COLUMNS, max(_FEWEST_COLUMNS, shutil.get_terminal_size().columns))
    return Form(columns, (out.encoding or "").lower().replace("-", "").startswith("utf"))


def _sayable(text: str, out: TextIO) -> str:
    """Letters of names that the stream's encoding lacks become question marks."""
    encoding = out.encoding or "ascii"
    return text.encode(encoding, "replace").decode(encoding)


def _pictures(report: ReportView, output: Path, wanted: str) -> list[tuple[str, Path]]:
    names = [plot.name for plot in report.every_plot]
    if wanted:
        found = [name for name in names if wanted in name]
        if len(found) != 1:
            raise _unfit(wanted, len(found), report)
        return [(found[0], output)]
    if not names:
        raise UsageError("there is nothing to draw: no case has a number", hint="see `busbw show RUN`")
    safe = (
        "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name) for name in names
    )
    return [
        (name, output.with_name(f"{output.stem}-{part}{output.suffix}"))
        for name, part in zip(names, safe, strict=True)
    ]


def _unfit(wanted: str, count: int, report: ReportView) -> UsageError:
    names = ", ".join(plot.name for plot in report.every_plot)
    return UsageError(f"--plot {wanted!r} fits {count} plots", hint=f"name one of: {names}")


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}", hint="name a file in a folder that you can write"
        ) from error
    print(f"wrote {path} ({len(data) / 1e6:.1f} MB)", file=sys.stderr)
