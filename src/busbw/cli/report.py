"""``busbw report``: runs as one page, as text, or as pictures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from busbw.cli.compare_inputs import read_arm
from busbw.cli.diagnose import diagnosed
from busbw.errors import ExitCode, UsageError
from busbw.reports import page, plots
from busbw.reports.reported import Reported
from busbw.reports.view import ReportView, view

_PICTURES: Final = (".svg", ".png")
_STAMP: Final = len("20261122-181502")  # the part of a run's name that tells it from others
_TEXTS: Final = (".html", ".md")


def report_command(runs: Sequence[str], output: Path, plot: str) -> ExitCode:
    """Write the report. A picture's format makes one file a plot, or the one that ``plot`` names."""
    suffix = output.suffix.lower()
    if suffix not in (*_TEXTS, *_PICTURES):
        raise UsageError(
            f"--output {output}: unknown format {suffix or 'without a suffix'}",
            hint=f"name a file that ends in {', '.join((*_TEXTS, *_PICTURES))}",
        )
    if plot and suffix not in _PICTURES:
        raise UsageError(f"--plot is of pictures, not of {suffix}", hint="write to a .svg or .png file")
    if suffix != ".md":
        plots.require()
    report = view(_reported(runs))
    if suffix in _TEXTS:
        text = page.html_text(report) if suffix == ".html" else page.markdown_text(report)
        _write(output, text.encode())
        return ExitCode.OK
    for name, path in _pictures(report, output, plot):
        found = next(each for each in report.every_plot if each.name == name)
        data = plots.png(found) if suffix == ".png" else plots.svg(found, plots.on_paper).encode()
        _write(path, data)
    return ExitCode.OK


def _reported(words: Sequence[str]) -> tuple[Reported, ...]:
    """Every run or log that was named, with its diagnosis; names are made unique."""
    found: list[Reported] = []
    several = len(words) > 1
    for word in words or ("last",):
        given = read_arm(word)
        for record, folder in zip(given.records, given.folders, strict=True):
            each = diagnosed(record, folder)
            subject = each.subject
            name = given.name if len(given.records) == 1 else record.run_id or given.name
            if several and name == record.run_id:
                name = name[:_STAMP]
            taken = sum(other.name.partition(" #")[0] == name for other in found)
            found.append(
                Reported(
                    name=f"{name} #{taken + 1}" if taken else name,
                    record=record,
                    expectation=subject.expectation,
                    wires=subject.wires,
                    answers=each.answers,
                    conclusions=each.conclusions,
                    samples=subject.samples,
                    digests=subject.digests,
                )
            )
    return tuple(found)


def _pictures(report: ReportView, output: Path, wanted: str) -> list[tuple[str, Path]]:
    names = [plot.name for plot in report.every_plot]
    if wanted:
        found = [name for name in names if wanted in name]
        if len(found) != 1:
            raise UsageError(
                f"--plot {wanted!r} fits {len(found)} plots", hint=f"name one of: {', '.join(names)}"
            )
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


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}", hint="name a file in a folder that you can write"
        ) from error
    print(f"wrote {path} ({len(data) / 1e6:.1f} MB)", file=sys.stderr)
