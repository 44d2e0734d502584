"""A series of setups that was measured: what each is worth, and the best of them as files."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from busbw import setup_series
from busbw.analysis.compare import Comparison, compare_all
from busbw.analysis.compare_setups import (
    Reach,
    choices,
    effects,
    reaches,
    setup_arms,
    winner,
    wrong_data,
)
from busbw.errors import BusbwError, ExitCode, UsageError
from busbw.planning.setups import env_file, given, nccl_conf, over
from busbw.reports import compare as plain
from busbw.reports import compare_setups as report

if TYPE_CHECKING:
    from busbw.analysis.compare_arms import Arm
    from busbw.model.record import RunRecord
    from busbw.settings.compare import CompareSettings
    from busbw.setup_series import Series


def show_series(folders: Sequence[Path], options: CompareSettings, format_name: str) -> ExitCode:
    """Show a series that was measured, or several of the same setups as one, and export its best setup where
    asked.
    """
    from busbw.cli.compare import exit_code, rule_of

    series, records = setup_series.read_all(folders)
    names = _names(series, options.baseline)
    comparisons = compare_all(arms_by_nodes(series, names, records), rule_of(options))
    told = reaches(series.names, series.outcomes, records)
    _print(series, told, list(zip(series.nodes, comparisons, strict=True)), format_name)
    if options.save_env is not None:
        _export(series, comparisons, options)
    code = exit_code(comparisons, gate=options.gate)
    if options.gate and code is ExitCode.OK and series.stopped:
        return ExitCode.UNDECIDED
    return code


def arms_by_nodes(
    series: Series, names: Sequence[str], records: Mapping[str, RunRecord]
) -> list[tuple[Arm, ...]]:
    """For each number of nodes one arm a setup, in the order of ``names``; ``records`` by folder."""
    setups = {setup.name: given(over(setup, series.environ)) for setup in series.setups}
    return [
        setup_arms(series.folder.name, names, series.outcomes, records, nodes, setups)
        for nodes in series.nodes
    ]


def _names(series: Series, baseline: str) -> list[str]:
    names = list(series.names)
    if baseline and baseline not in names:
        raise UsageError(f"no setup {baseline!r} in the series", hint=f"it has: {', '.join(names)}")
    return sorted(names, key=lambda name: name != (baseline or names[0]))


def _print(
    series: Series, told: Sequence[Reach], made: Sequence[tuple[int, Comparison]], format_name: str
) -> None:
    gains = [(nodes, effect) for nodes, comparison in made for effect in effects(comparison)]
    best = [(nodes, choice) for nodes, comparison in made for choice in choices(comparison)]
    if format_name == "json":
        sys.stdout.write(report.json_text(series.setups, told, made, gains, best, _fields(series)))
    elif format_name == "csv":
        for position, (_, comparison) in enumerate(made):
            print(*plain.csv_text(comparison).splitlines()[1 if position else 0 :], sep="\n")
    else:
        print(f"# series   {_told(series)}")
        if series.environ:
            words = " ".join(f"{name}={value}" for name, value in series.environ.items())
            print(f"# env      {words}; in every launch, over the setups' own")
        print(*report.table(series.setups, told, made, gains, best), sep="\n")


def _fields(series: Series) -> dict[str, Any]:
    return {
        "name": series.folder.name,
        "seed": series.seed,
        "environ": dict(series.environ),
        "launches": len(series.outcomes),
        "planned": series.planned,
        "stopped": series.stopped,
    }


def _told(series: Series) -> str:
    text = f"{series.folder.name}: {len(series.order)} blocks in random order, seed {series.seed}"
    if not series.stopped:
        return text
    return f"{text}; CUT SHORT ({series.stopped}): {len(series.outcomes)} of {series.planned} launches"


def _export(series: Series, comparisons: Sequence[Comparison], options: CompareSettings) -> None:
    """The setup that is best everywhere, or the one that was named."""
    assert options.save_env is not None
    best = winner(comparisons)
    name = options.export_setup or best.setup
    chosen = [over(setup, series.environ) for setup in series.setups if setup.name == name]
    if not chosen:
        raise UsageError(f"no setup {name!r}", hint=f"the series has: {', '.join(series.names)}")
    if wrong := wrong_data(comparisons, name):
        raise BusbwError(
            f"{options.save_env} is not written: setup {name} had {wrong}",
            hint="name a setup whose data were right with --export-setup",
        )
    if not options.export_setup and any(
        each.baseline.failures for each in comparisons if each.baseline.name == name
    ):
        raise BusbwError(
            f"{options.save_env} is not written: the default, {name}, did not complete every launch, and no"
            " other setup is FASTER somewhere and SLOWER, FAILED or short of a launch nowhere",
            hint="name a setup with --export-setup",
        )
    failed = sum(1 for each in series.outcomes if each.setup == name and (each.error or each.skipped))
    if failed:
        print(f"note: {failed} launches of setup {name} were not completed", file=sys.stderr)
    remarks = (
        f"setup {name}, from series {series.folder.name} of busbw compare",
        "chosen by name" if options.export_setup else best.why,
        *([f"{failed} of its launches were not completed"] if failed else []),
        *([f"the series was cut short: {series.stopped}"] if series.stopped else []),
    )
    conf = options.save_env.with_name(options.save_env.name + ".nccl.conf")
    texts = {options.save_env: env_file(chosen[0], remarks), conf: nccl_conf(chosen[0], remarks)}
    try:
        for path, text in texts.items():
            path.write_text(text)
    except OSError as error:
        raise UsageError(
            f"cannot write {options.save_env}: {error.strerror}", hint="name a file that you can write"
        ) from error
    print(f"wrote {options.save_env} and {conf}: setup {name}", file=sys.stderr)
