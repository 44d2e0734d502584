"""A series of setups that was measured: what each is worth, and the best of them as files."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from busbw.cli.compare_inputs import known_scatter
from busbw.cli.output import show, write_for_ci
from busbw.errors import BusbwError, ExitCode, UsageError
from busbw.files import write_output
from busbw.judge.compare import Comparison, Rule, Verdict, compare_all
from busbw.judge.compare_setups import compared_series, setup_arms, winner, wrong_data
from busbw.launch import series as setup_series
from busbw.launch.series import Series
from busbw.model.record import RunRecord
from busbw.plan.flags.compare import CompareSettings
from busbw.plan.setups import env_file, nccl_conf, over
from busbw.report import ci
from busbw.report import compare as plain
from busbw.report import compare_setups as report
from busbw.report.console import columns
from busbw.report.fields import UNBOUND


def show_series(folders: Sequence[Path], options: CompareSettings, format_name: str) -> ExitCode:
    """Show a measured series, or several of the same setups as one; export its best setup where asked."""
    series, records = setup_series.read_all(folders)
    names, baseline = list(series.names), options.baseline
    if baseline and baseline not in names:
        raise UsageError(f"no setup {baseline!r} in the series", hint=f"use one of: {', '.join(names)}")
    names.sort(key=lambda name: name != (baseline or series.names[0]))
    comparisons = compared(series, names, records, rule_of(options))
    made = zip(series.nodes, comparisons, strict=True)
    told = compared_series(series.setups, series.outcomes, records, made)
    fields = {
        "name": series.folder.name,
        "seed": series.seed,
        "environ": dict(series.environ),
        "launches": len(series.outcomes),
        "planned": series.planned,
        "stopped": series.stopped,
    }
    show(
        format_name,
        (*_heading(series), *report.table(told, every_row=options.all, columns=columns(UNBOUND))),
        json=lambda: report.json_text(told, fields),
        csv=lambda: plain.csv_text(comparisons),
    )
    names = [f"{nodes} nodes" if nodes else "" for nodes in series.nodes]
    write_for_ci(list(map(ci.of_comparison, names, comparisons)), options)
    if options.save_env is not None:
        _export(series, comparisons, options)
    code = exit_code(comparisons, gate=options.gate)
    if options.gate and code is ExitCode.OK and series.stopped:
        return ExitCode.UNDECIDED
    return code


def compared(
    series: Series, names: Sequence[str], records: Mapping[str, RunRecord], rule: Rule | None = None
) -> tuple[Comparison, ...]:
    """For each number of nodes the setups in the order of ``names``; ``records`` by folder."""
    arms = [setup_arms(series.folder.name, names, series.outcomes, records, nodes) for nodes in series.nodes]
    on = {each.folder: each.nodes for each in series.outcomes}
    own = [[made for folder, made in records.items() if on.get(folder) == nodes] for nodes in series.nodes]
    return compare_all(arms, rule, [known_scatter(each) for each in own])


def _heading(series: Series) -> Iterator[str]:
    text = f"# series   {series.folder.name}: {len(series.order)} blocks in random order, seed {series.seed}"
    if series.stopped:
        text += f"; CUT SHORT ({series.stopped}): {len(series.outcomes)} of {series.planned} launches"
    yield text
    if series.environ:
        words = " ".join(f"{name}={value}" for name, value in series.environ.items())
        yield f"# env      {words}; in every launch, over the setups' own"


def _export(series: Series, comparisons: Sequence[Comparison], options: CompareSettings) -> None:
    """The setup that is best everywhere, or the one that was named."""
    assert options.save_env is not None
    best = winner(comparisons)
    name = options.export_setup or best.setup
    chosen = [over(setup, series.environ) for setup in series.setups if setup.name == name]
    if not chosen:
        raise UsageError(f"no setup {name!r}", hint=f"use one of: {', '.join(series.names)}")
    if wrong := wrong_data(comparisons, name):
        raise BusbwError(
            f"{options.save_env} is not written: setup {name} had {wrong}",
            hint="name another setup with --export-setup",
        )
    if not options.export_setup and any(
        each.baseline.failures for each in comparisons if each.baseline.name == name
    ):
        raise BusbwError(
            f"{options.save_env} is not written: launches of {name} failed, and no setup is better",
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
    for path, text in texts.items():
        write_output(path, text.encode())
    print(f"wrote {options.save_env} and {conf}: setup {name}", file=sys.stderr)


def rule_of(options: CompareSettings) -> Rule:
    """The rule that the flags ask for."""
    return Rule(delta=float(options.delta), q=float(options.false_discoveries), detect=float(options.detect))


def exit_code(comparisons: Sequence[Comparison], *, gate: bool) -> ExitCode:
    """0, or with a gate: 1 for anything slower or failed, or wrong data of anyone, 0 where everything was
    compared and is the same or faster, no launch is without a number and no log lacks anything, else 3.
    """
    if not gate:
        return ExitCode.OK
    count = {verdict: sum(each.count(verdict) for each in comparisons) for verdict in Verdict}
    failed = any(arm.failures for each in comparisons for arm in each.candidates) or any(
        each.baseline.wrong for each in comparisons
    )
    if count[Verdict.SLOWER] or count[Verdict.FAILED] or failed:
        return ExitCode.BAD_VERDICT
    good = count[Verdict.SAME] + count[Verdict.FASTER]
    lacks = any(
        each.baseline.failures
        or any(arm.lacking for arm in (each.baseline, *each.candidates))
        or any(row.lost for row in each.rows)
        for each in comparisons
    )
    whole = 0 < good == sum(count.values()) and not lacks
    return ExitCode.OK if whole else ExitCode.UNDECIDED
