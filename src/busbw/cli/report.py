"""``busbw report``: runs as one page, as text, as pictures, or in the terminal."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final

from busbw.cli.app import flag, positional
from busbw.cli.compare import series_folder
from busbw.cli.compare_inputs import known_scatter, read_arm
from busbw.cli.compare_series import compared
from busbw.cli.diagnose import diagnosed
from busbw.cli.history import history_of
from busbw.cli.kept_tuning import is_tuning, read_tuning
from busbw.errors import ExitCode, UsageError
from busbw.files import write_output
from busbw.judge.compare import Comparison, compare_all
from busbw.judge.compare_arms import nodes
from busbw.judge.compare_setups import compared_series
from busbw.judge.measured_with import products_of
from busbw.judge.references.load import built_in
from busbw.launch import series as setup_series
from busbw.model.record import RunRecord
from busbw.record.read import read_rounds
from busbw.report import markdown, page, plots
from busbw.report.console import columns, print_lines
from busbw.report.fields import UNBOUND
from busbw.report.hunt import lost_rounds
from busbw.report.plots import Plot
from busbw.report.progress import progress
from busbw.report.reported import Reported
from busbw.report.view import Other, ReportView, Shown, of_hunt, of_series, of_tuning, view

TERMINAL: Final = "-"
_PAGE: Final = ".html"
_PICTURES: Final = (".svg", ".png")
_TEXT: Final = ".txt"
# Of text: where Markdown is rendered, whoever renders it breaks lines.
_COLUMNS: Final = {".md": UNBOUND, _TEXT: 80}
_MOST_COLUMNS: Final = 110
_STAMP: Final = len("20261122-181502")  # the part of a run's name that mostly tells it from others


def report_command(
    *runs: Annotated[
        str,
        positional(
            "Runs, hunts and series of setups (names, folders, `last`, or a selection as `busbw list` takes"
            " it, its terms joined by +), and logs. [default: last]"
        ),
    ],
    output: Annotated[
        Path,
        flag(
            "File to write: a page (.html), text (.md, .txt), or one picture for each plot (.svg, .png); -"
            " draws in this terminal.",
            name=["--output", "-o"],
            allow_leading_hyphen=True,
        ),
    ] = Path("report.html"),
    plot: Annotated[str, flag("Draw only plots whose name contains this word.")] = "",
) -> ExitCode:
    """Write the report. A picture's format makes one file a plot, or the one that ``plot`` names."""
    suffix = _TEXT if str(output) == TERMINAL else output.suffix.lower()
    if suffix not in (_PAGE, *_COLUMNS, *_PICTURES):
        raise UsageError(
            f"--output {output}: unknown format {suffix or 'without a suffix'}",
            hint=f"name a file that ends in {', '.join((_PAGE, *_COLUMNS, *_PICTURES))},"
            " or - for this terminal",
        )
    if plot and suffix == _PAGE:
        raise UsageError(
            "--plot needs pictures or text, not a page",
            hint="write to a .svg, .png, .md or .txt file, or to -",
        )
    if suffix not in _COLUMNS:
        plots.require()
    several = shown(runs)
    report = view(several, compared_runs(several))
    if suffix == _PAGE:
        _write(output, page.html_text(report).encode())
    elif suffix in _COLUMNS:
        _write_text(report, output, _COLUMNS[suffix], plot)
    else:
        for found, path in _pictures(report, output, plot):
            data = plots.png(found) if suffix == ".png" else plots.svg(found, plots.on_paper).encode()
            _write(path, data)
    return ExitCode.OK


def shown(words: Sequence[str]) -> tuple[Shown, ...]:
    """Everything that was named, the last run where nothing was; names are made unique. Raises UsageError."""
    found: list[Shown] = []
    with progress(len(words)) as step:
        for done, word in enumerate(words or ("last",)):
            step(done, word)
            found += _found(word)
    names = [each.name for each in found]
    if len(found) > 1:  # runs without a name of their own have the time of their start, where that is enough
        short = [_short(each) for each in found]
        names = [few if short.count(few) == 1 else whole for few, whole in zip(short, names, strict=True)]
    return tuple(
        replace(each, name=f"{name} #{names[: at + 1].count(name)}" if name in names[:at] else name)
        for at, (each, name) in enumerate(zip(found, names, strict=True))
    )


def _short(shown: Shown) -> str:
    record = shown.record
    if record is None or shown.name != record.run_id or record.source is not None:
        return shown.name
    return str(record.settings.get("name") or shown.name[:_STAMP])


def _found(word: str) -> list[Shown]:
    """What one word names."""
    if (series := series_folder(word)) is not None:
        return [_series(series)]
    given = read_arm(word)
    several = len(given.runs) > 1
    return [
        _run(record.run_id if several and record.run_id else given.name, record, folder)
        for record, folder in given.runs
    ]


def compared_runs(found: Sequence[Shown]) -> tuple[Comparison, ...]:
    """As `busbw compare` compares them: those with as many ranks against the first of them."""
    groups: dict[int, list[Reported]] = defaultdict(list)
    for each in found:
        if isinstance(each, Reported) and each.record.timed and not each.record.profiled:
            groups[each.expectation.arm.ranks].append(each)
    several = [own for own in groups.values() if len(own) > 1]
    arms = [[replace(run.expectation.arm, name=run.name) for run in own] for own in several]
    return compare_all(arms, None, [known_scatter(run.record for run in own) for own in several])


def _run(name: str, record: RunRecord, folder: Path | None) -> Shown:
    if folder is not None and is_tuning(folder):
        return Other(name, record, partial(of_tuning, record=record, tuning=read_tuning(folder)))
    if record.plan.hunt is not None:
        rounds = read_rounds(folder) if folder is not None else ()
        if folder is not None and (lost := lost_rounds(record, rounds)):
            print(f"warning: {folder.name}: {lost}", file=sys.stderr)
        return Other(name, record, partial(of_hunt, record=record, rounds=rounds))
    each = diagnosed(record, folder)
    subject = each.subject
    return Reported(
        name=name,
        record=record,
        expectation=subject.expectation,
        wires=subject.wires,
        answers=each.answers,
        conclusions=each.conclusions,
        samples=subject.samples,
        digests=subject.digests,
        machine=_machine(record),
        history=history_of(record),
    )


def _machine(record: RunRecord) -> str:
    """In the words of the references: ``2 x p5.48xlarge``; empty for a machine that none of them is of."""
    product = products_of(record)
    is_known = bool(product) and any(each.product == product for each in built_in())
    return f"{nodes(record)} x {product}" if is_known else ""


def _series(folder: Path) -> Other:
    series, records = setup_series.read_series(folder)
    made = tuple(zip(series.nodes, compared(series, series.names, records), strict=True))
    launches = [outcome for outcome in series.outcomes if not outcome.skipped]
    first = made[0][1].baseline
    facts = {
        "series": f"{len(series.order)} blocks in random order, seed {series.seed}",
        "launches": f"{len(launches)}, of which {sum(bool(each.error) for each in launches)} failed",
        "ranks": f"{first.ranks or 'unknown'}"
        + (f", {first.facts['device']}" if "device" in first.facts else ""),
        "library": first.facts.get("version", ""),
        "measured": first.facts.get("created", ""),
        "time": first.definition,
        "stopped": series.stopped,
    }
    told = tuple((name, value) for name, value in facts.items() if value)
    judged = compared_series(series.setups, series.outcomes, records, made)
    return Other(folder.name, None, partial(of_series, facts=told, compared=judged))


def _write_text(report: ReportView, output: Path, width: int, wanted: str) -> None:
    """To a terminal as wide as that is."""
    is_shown = str(output) == TERMINAL
    if is_shown and sys.stdout.isatty():
        width = columns(_MOST_COLUMNS)
    chosen = [each for each in report.every_plot if wanted in each.name]
    if wanted and not chosen:
        raise _unfit(wanted, 0, report)
    lines = markdown.plot_lines(chosen, width) if wanted else markdown.report_lines(report, width)
    if is_shown:
        print_lines(lines)
    else:
        _write(output, "".join(f"{line}\n" for line in lines).encode())


def _pictures(report: ReportView, output: Path, wanted: str) -> list[tuple[Plot, Path]]:
    found = report.every_plot
    if wanted:
        chosen = [plot for plot in found if plot.name == wanted]
        chosen = chosen or [plot for plot in found if wanted in plot.name]
        if len(chosen) != 1:
            raise _unfit(wanted, len(chosen), report)
        return [(chosen[0], output)]
    if not found:
        raise UsageError("nothing to draw: no case was measured", hint="see what it has: `busbw show RUN`")
    safe = [
        "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in plot.name)
        for plot in found
    ]
    return [
        (plot, output.with_name(f"{output.stem}-{part}{output.suffix}"))
        for plot, part in zip(found, safe, strict=True)
    ]


def _unfit(wanted: str, count: int, report: ReportView) -> UsageError:
    names = ", ".join(plot.name for plot in report.every_plot)
    return UsageError(f"--plot {wanted!r} fits {count} plots", hint=f"name one of: {names}")


def _write(path: Path, data: bytes) -> None:
    write_output(path, data)
    size = f"{len(data) / 1e6:.1f} MB" if len(data) >= 1e5 else f"{len(data) / 1e3:.0f} kB"
    print(f"wrote {path} ({size})", file=sys.stderr)
