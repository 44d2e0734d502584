"""``busbw compare``: runs, logs and series of setups side by side."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from busbw.cli.app import positional
from busbw.cli.compare_inputs import (
    Given,
    Tree,
    each_once,
    is_named,
    known_scatter,
    read_compared,
    read_trees,
    setups_of,
)
from busbw.cli.compare_series import exit_code, rule_of, show_series
from busbw.cli.output import as_json, show, write_for_ci
from busbw.cli.samples import samples_and_digests
from busbw.errors import ExitCode, UsageError
from busbw.judge.compare import Comparison, compare_all
from busbw.judge.compare_arms import Arm, findings_of, make_arm, setup, without_cases
from busbw.judge.scaling import Failed, Measured, Percentiles, over_launches, scaling, spreads
from busbw.launch.series import is_series, read_each
from busbw.model.record import INCOMPLETE, RunRecord
from busbw.plan.flags.compare import CompareSettings
from busbw.plan.flags.flag import flag_of
from busbw.plan.flags.launch import LaunchSettings
from busbw.plan.flags.run import RunSettings
from busbw.plan.flags.values import changed
from busbw.record.folder import environ_home, find_run, launch_folders
from busbw.record.read import read_record
from busbw.report import ci, compare_scaling
from busbw.report import compare as report
from busbw.report.console import columns
from busbw.report.fields import UNBOUND, fact, facts

_SPEC_ENDS = (".yaml", ".yml")
_MEASURING = ("ops", "blocks", "order_seed", "one_at_a_time", "launch_timeout")


def compare_command(
    *words: Annotated[
        str, positional("A file of setups to measure, or runs and logs: the first is the baseline.")
    ],
    options: CompareSettings = CompareSettings(),
    settings: RunSettings = RunSettings(),
    launch: LaunchSettings = LaunchSettings(),
) -> ExitCode:
    """A file of setups is measured; a series, runs and logs are read. Raises UsageError."""
    if not words:
        raise UsageError("nothing to compare", hint="name a file of setups, or two runs or logs")
    if settings.format == "jsonl":
        raise UsageError("--format jsonl is only for the events of a run", hint="use table, csv or json")
    if settings.profile != "none":
        raise UsageError(
            "times under a profiler cannot be compared", hint="leave out --profile, or use busbw run"
        )
    specs = [word for word in words if word.endswith(_SPEC_ENDS)]
    if specs:
        from busbw.cli.compare_setups import measure_setups

        if len(words) > 1:
            raise UsageError(
                "a file of setups must be the only argument", hint="put all setups into one file"
            )
        return measure_setups(Path(specs[0]), options, settings, launch)
    refuse_measuring(options, settings, launch)
    series = tuple(folder for word in words if (folder := series_folder(word)) is not None)
    if series and len(series) < len(words):
        raise UsageError(
            "a series can only be compared with other series of the same setups",
            hint="name only series, or only runs and logs",
        )
    if (options.save_env or options.export_setup) and (options.scaling or not series):
        raise UsageError(
            "--save-env and --export-setup need a series of setups",
            hint="leave them out, or name a series of `busbw compare SETUPS.yaml`",
        )
    if options.scaling:
        return _show_scaling(words, series, settings.format)
    if series:
        return show_series(series, options, settings.format)
    made = compare_trees(read_trees(words), options)
    print_comparisons(made, settings.format, every_row=options.all)
    write_for_ci([ci.of_comparison(name, comparison) for name, comparison in made], options)
    return exit_code([comparison for _, comparison in made], gate=options.gate)


def refuse_measuring(options: CompareSettings, settings: RunSettings, launch: LaunchSettings) -> None:
    """Raises UsageError: flags of measuring do nothing to what was measured."""
    default = type(options)()
    own = [name for name in _MEASURING if getattr(options, name) != getattr(default, name)]
    given = (*(name for name in changed(settings) if name != "format"), *changed(launch), *own)
    if given:
        raise UsageError(
            f"{flag_of(given[0])} is only for measuring setups; these are runs",
            hint="leave it out, or name a .yaml file",
        )


def series_folder(word: str) -> Path | None:
    """The folder of a series of setups that a word names; None where it names anything else."""
    with contextlib.suppress(UsageError):
        if is_series(find_run(word, environ_home(), say=lambda text: None)):
            return find_run(word, environ_home())
    return None


def compare_trees(trees: Sequence[Tree], options: CompareSettings) -> list[tuple[str, Comparison]]:
    """Each tree compared, under its name. Raises UsageError."""
    groups = []
    for tree in trees:
        known = [make_arm(given.name, given.records) for given in tree.arms if given.records]
        by_name = {arm.name: arm for arm in known}  # one without records has nothing of what the others have
        arms = [by_name.get(given.name) or without_cases(given.name, known[0]) for given in tree.arms]
        groups.append(_with_baseline(arms, options.baseline))
    own = [[record for given in tree.arms for record in given.records] for tree in trees]
    comparisons = compare_all(groups, rule_of(options), [known_scatter(records) for records in own])
    return [(tree.name, each) for tree, each in zip(trees, comparisons, strict=True)]


def _with_baseline(arms: list[Arm], name: str) -> list[Arm]:
    """The baseline first."""
    if not name:
        return arms
    chosen = [arm for arm in arms if name in (arm.name, arm.name.removeprefix("setup "))]
    if not chosen:
        names = ", ".join(arm.name for arm in arms)
        raise UsageError(f"nothing here is called {name!r}, the baseline", hint=f"use one of: {names}")
    return [chosen[0], *(arm for arm in arms if arm is not chosen[0])]


def print_comparisons(
    made: Sequence[tuple[str, Comparison]], format_name: str, *, every_row: bool = False
) -> None:
    """One after another, each under its name."""
    bodies = list(comparison_fields(made))
    show(
        format_name,
        comparison_lines(made, every_row=every_row, width=columns(UNBOUND)),
        json=lambda: as_json(bodies[0] if len(bodies) == 1 else bodies),
        csv=lambda: report.csv_text([comparison for _, comparison in made]),
    )


def comparison_fields(made: Sequence[tuple[str, Comparison]]) -> Iterator[dict[str, Any]]:
    """Each as plain values, with its name where it has one."""
    for name, comparison in made:
        yield {**({"of": name} if name else {}), **report.comparison_fields(comparison)}


def comparison_lines(
    made: Sequence[tuple[str, Comparison]], *, every_row: bool = False, width: int = UNBOUND
) -> Iterator[str]:
    """Each as a table under its name, on a terminal's ``width``."""
    for name, comparison in made:
        if name:
            yield fact("of", name)
        yield from report.table(comparison, every_row=every_row, columns=width)


def _show_scaling(words: tuple[str, ...], series: tuple[Path, ...], format_name: str) -> ExitCode:
    measured: list[Measured] = []
    failed: list[Failed] = []
    notes: list[str] = []
    # Every launch of series of setups: with a record, or failed before its ranks were there.
    for of, (whole, records) in zip(series, read_each(series) if series else (), strict=True):
        for outcome in whole.outcomes:
            record = records.get(outcome.folder)
            if record is not None and (record.world is not None or not outcome.error):
                measured.append(_measured(record, of / outcome.folder, outcome.setup))
            elif outcome.error:
                failed.append(Failed(outcome.setup, outcome.nodes, outcome.error))
    for name, given in () if series else _curves(words):
        several = len(setups_of(given)) > 1
        notes += [f"{given.name}: {text}" for text in findings_of(given.records, INCOMPLETE)]
        measured += [
            _measured(record, folder, f"{name} {setup(record)}".rstrip() if name and several else name)
            for record, folder in given.runs
        ]
    rows = scaling(measured, failed)
    show(
        format_name,
        (*compare_scaling.table(rows), *facts(("note", note) for note in notes)),
        json=lambda: compare_scaling.json_text(rows),
        csv=lambda: compare_scaling.csv_text(rows),
    )
    return ExitCode.OK


def _curves(words: Sequence[str]) -> Iterator[tuple[str, Given]]:
    """What each word means, with the name that it gives. Words of one name, or without one, are counted
    together: what is in two of them is one launch.
    """
    by_name: dict[str, list[Given]] = defaultdict(list)
    for word in words:
        given = read_compared(word)
        by_name[given.name if is_named(word) else ""].append(given)
    for name, own in by_name.items():
        for given in each_once(*own):
            yield name, given


def _measured(record: RunRecord, folder: Path | None, setup: str) -> Measured:
    return Measured(record, _spreads(record, folder) if folder is not None else {}, setup)


def _spreads(record: RunRecord, folder: Path) -> dict[int, Percentiles]:
    """From the run's samples, or those of its launches."""
    if launches := launch_folders(folder):
        return over_launches([_spreads(read_record(launch), launch) for launch in launches])
    return spreads(record, samples_and_digests(folder, record)[0])
