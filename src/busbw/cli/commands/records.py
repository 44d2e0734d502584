"""Commands that list, show, read and write runs, and what is known of many of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from busbw.cli.app import (
    PRINTED,
    SELECTION,
    CleanApp,
    RunName,
    TextOrJson,
    app,
    command,
    examples,
    flag,
    word,
)
from busbw.errors import ExitCode
from busbw.foreign.forms.formats import ExportFormat
from busbw.plan.flags.list import HistorySettings, ListSettings
from busbw.plan.flags.logs import ImportSettings
from busbw.plan.flags.ranks import FormatName


@command(
    "busbw list",
    "busbw list tag:nightly 7d",
    "busbw list host:node7 version:2.28 2026-11-01:",
    "busbw list --operation all_reduce --status failed -n 50",
    name="list",
)
def list_runs(
    *runs: Annotated[str, word(f"Only runs for which all of these hold: {SELECTION}.")],
    format: TextOrJson = "table",  # noqa: A002
    settings: ListSettings = ListSettings(),
) -> ExitCode:
    """List earlier runs, hunts, preflights and series of setups, newest first."""
    from busbw.cli.list_runs import list_runs as list_command

    return list_command(runs, format, settings)


@command("busbw show", "busbw show last --ranks --case 4", "busbw show before-upgrade --histogram")
def show(
    run: RunName = "last",
    /,
    *,
    format: Annotated[FormatName, PRINTED] = "table",  # noqa: A002
    wide: Annotated[
        bool,
        flag(
            "Show everything on a terminal too: all columns, all tests of a hunt.", name=("--all", "--wide")
        ),
    ] = False,
    ranks: Annotated[bool, flag("Show its ranks: the slowest and the late.")] = False,
    histogram: Annotated[bool, flag("Show how the samples of a case spread.")] = False,
    case: Annotated[int | None, flag("Show one case; the first row of the table is 0.")] = None,
    provenance: Annotated[
        bool, flag("Show where it ran and with what: hosts, instances, nodes, pods, modules, libraries.")
    ] = False,
) -> ExitCode:
    """Show an earlier run again: its table, ranks or histograms."""
    from busbw.cli.show import show as show_command

    return show_command(
        run, format, wide=wide, ranks=ranks, histogram=histogram, case=case, provenance=provenance
    )


@command(
    "busbw import all_reduce.log",
    "busbw import results/ --system cluster1",
    "kubectl logs job/nccl-test | busbw import -",
    name="import",
)
def import_logs(
    *paths: Annotated[
        str,
        # For "-"; the command itself refuses other words that begin like a flag.
        word("Logs, folders of logs, or - for standard input.", allow_leading_hyphen=True),
    ],
    settings: ImportSettings = ImportSettings(),
) -> ExitCode:
    """Read logs of nccl-tests, rccl-tests, nccom-test, OSU and IMB as runs."""
    from busbw.cli.import_logs import import_logs as import_command

    return import_command(paths, settings)


@command(
    "busbw export",
    "busbw export last --format csv --output results.csv",
    "busbw export 20261121-1815 --format nccl-tests-json --op all_reduce",
)
def export(
    run: RunName = "last",
    /,
    *,
    format: Annotated[ExportFormat, flag("Format to write.")] = "nccl-tests",  # noqa: A002
    output: Annotated[
        Path | None, flag("Write to this file instead of standard output.", name=["--output", "-o"])
    ] = None,
    op: Annotated[str, flag("Only this operation of the run.")] = "",
) -> ExitCode:
    """Write a run in a format that other tools read: tables, CSV, JSON, Parquet."""
    from busbw.cli.export import export as export_command

    return export_command(run, format, output=output, operation=op)


# ---- what is known of many runs -----------------------------------------------------------------------


history = CleanApp(
    name="history",
    help="Show how results changed from launch to launch: levels, trends, and what changed with them.",
    help_epilogue=examples(
        "busbw history",
        "busbw history all_reduce --size 1G --since 30d",
        "busbw history tag:nightly host:node7 --format csv",
    ),
)
app.command(history)


@history.default
def show_history(
    *what: Annotated[str, word(f"Operations, and launches for which all of these hold: {SELECTION}.")],
    settings: HistorySettings = HistorySettings(),
) -> ExitCode:
    """Show how results changed from launch to launch: levels, trends, and what changed with them."""
    from busbw.cli.history import history as history_command

    return history_command(what, settings)


@command('busbw history accept last --why "the new firmware costs 3 percent"', of=history)
def accept(run: RunName, /, *, why: Annotated[str, flag("The reason; empty takes it back.")]) -> ExitCode:
    """Take the level of a run as the new one: what comes is held against it."""
    from busbw.cli.history import say

    return say(run, "accepted", why)


@command('busbw history exclude 20261121-1815 --why "another job used the links"', of=history)
def exclude(run: RunName, /, *, why: Annotated[str, flag("The reason; empty takes it back.")]) -> ExitCode:
    """Leave a run out of its series, and of what later ones are held against."""
    from busbw.cli.history import say

    return say(run, "excluded", why)
