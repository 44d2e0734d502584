"""Commands that list, show, read and write runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from busbw.cli.app import FLAGS, RUN_NAME, TextOrJson, app, examples
from busbw.errors import ExitCode
from busbw.exporters.formats import ExportFormat
from busbw.importers.settings import ImportSettings
from busbw.settings.run import FormatName

LIST_EXAMPLES: Final = ("busbw list", "busbw list --limit 3 --format json")


@app.command(name="list", help_epilogue=examples(*LIST_EXAMPLES))
def list_runs(
    *,
    format: Annotated[TextOrJson, Parameter(group=FLAGS, help="How to print it.")] = "table",  # noqa: A002
    limit: Annotated[int, Parameter(group=FLAGS, help="Show no more than this many.")] = 20,
) -> ExitCode:
    """Earlier runs, newest first."""
    from busbw.cli.list_runs import list_runs as list_command

    return list_command(format, limit)


SHOW_EXAMPLES: Final = (
    "busbw show",
    "busbw show last --format csv",
    "busbw show last --ranks --case 4",
    "busbw show 20261121-1815 --histogram",
    "busbw show last --provenance",
)


@app.command(help_epilogue=examples(*SHOW_EXAMPLES))
def show(
    run: Annotated[str, Parameter(help=RUN_NAME)] = "last",
    /,
    *,
    format: Annotated[FormatName, Parameter(group=FLAGS, help="How to print it.")] = "table",  # noqa: A002
    ranks: Annotated[
        bool,
        Parameter(group=FLAGS, negative="", show_default=False, help="Its ranks: the slowest and the late."),
    ] = False,
    histogram: Annotated[
        bool,
        Parameter(group=FLAGS, negative="", show_default=False, help="How the samples of a case spread."),
    ] = False,
    case: Annotated[
        int | None,
        Parameter(
            group=FLAGS, show_default=False, help="One case, from 0 as the table goes; alone: all of it."
        ),
    ] = None,
    provenance: Annotated[
        bool,
        Parameter(
            group=FLAGS,
            negative="",
            show_default=False,
            help="Where it ran and with what: hosts, instances, nodes, pods, modules, libraries.",
        ),
    ] = False,
) -> ExitCode:
    """Any earlier run, again."""
    from busbw.cli.show import show as show_command

    if provenance:
        from busbw.cli.show_provenance import show_provenance

        return show_provenance(run, format, alone=not ranks and not histogram and case is None)
    return show_command(run, format, ranks=ranks, histogram=histogram, case=case)


IMPORT_EXAMPLES: Final = (
    "busbw import all_reduce.log",
    "busbw import results/ --system cluster1",
    "busbw import osu.txt --ranks 64",
    "kubectl logs job/nccl-test | busbw import -",
)


@app.command(name="import", help_epilogue=examples(*IMPORT_EXAMPLES))
def import_logs(
    *paths: Annotated[
        str,
        # For "-"; the command itself refuses other words that begin like a flag.
        Parameter(allow_leading_hyphen=True, help="Logs, folders of logs, or - for standard input."),
    ],
    settings: Annotated[ImportSettings | None, Parameter(name="*")] = None,
) -> ExitCode:
    """Logs of nccl-tests, rccl-tests, nccom-test, OSU and IMB, as runs of busbw."""
    from busbw.cli.import_logs import import_logs as import_command

    return import_command(paths, settings or ImportSettings())


EXPORT_EXAMPLES: Final = (
    "busbw export",
    "busbw export last --format csv --output results.csv",
    "busbw export 20261121-1815 --format nccl-tests-json --op all_reduce",
)


@app.command(help_epilogue=examples(*EXPORT_EXAMPLES))
def export(
    run: Annotated[str, Parameter(help=RUN_NAME)] = "last",
    /,
    *,
    format: Annotated[  # noqa: A002
        ExportFormat, Parameter(group=FLAGS, help="What to write.")
    ] = "nccl-tests",
    output: Annotated[
        Path | None,
        Parameter(
            name=["--output", "-o"],
            group=FLAGS,
            show_default=False,
            help="Write to this file instead of standard output.",
        ),
    ] = None,
    op: Annotated[
        str, Parameter(group=FLAGS, show_default=False, help="Only this operation of the run.")
    ] = "",
) -> ExitCode:
    """A run in the formats that other tools' scripts read: tables, CSV, JSON, Parquet."""
    from busbw.cli.export import export as export_command

    return export_command(run, format, output=output, operation=op)
