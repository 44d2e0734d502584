"""Commands about jobs on engines."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from cyclopts import Parameter

from busbw.cli.app import FLAGS, RUN_NAME, app, examples
from busbw.errors import ExitCode
from busbw.settings.run import FormatName

JOBS_EXAMPLES: Final = ("busbw jobs", "busbw jobs --format json", "busbw jobs --format csv")


@app.command(help_epilogue=examples(*JOBS_EXAMPLES))
def jobs(
    *,
    format: Annotated[  # noqa: A002
        Literal["table", "json", "csv"],
        Parameter(group=FLAGS, help="How to print it; csv has nodes, operations and ranks as well."),
    ] = "table",
    limit: Annotated[int, Parameter(group=FLAGS, help="Show no more than this many.")] = 20,
) -> ExitCode:
    """Jobs that were submitted to engines from here."""
    from busbw.cli.jobs import jobs as jobs_command

    return jobs_command(format, limit)


ATTACH_EXAMPLES: Final = ("busbw attach", "busbw attach 20261121-1815 --format jsonl")


@app.command(help_epilogue=examples(*ATTACH_EXAMPLES))
def attach(
    run: Annotated[str, Parameter(help=RUN_NAME)] = "last",
    /,
    *,
    format: Annotated[FormatName, Parameter(group=FLAGS, help="How to print it.")] = "table",  # noqa: A002
) -> int:
    """Follow a job again: its table from the start, and its record. Ctrl-C leaves the job alone."""
    from busbw.cli.jobs import attach as attach_command

    return attach_command(run, format)


@app.command(help_epilogue=examples("busbw cancel last", "busbw cancel 20261121-1815 --now"))
def cancel(
    run: Annotated[str, Parameter(help=RUN_NAME)] = "last",
    /,
    *,
    now: Annotated[
        bool,
        Parameter(group=FLAGS, negative="", show_default=False, help="At once, without last words."),
    ] = False,
) -> ExitCode:
    """End a job on its engine."""
    from busbw.cli.jobs import cancel as cancel_command

    return cancel_command(run, now=now)


@app.command(help_epilogue=examples("busbw clean", "busbw clean 20261121-1815"))
def clean(
    run: Annotated[str, Parameter(show_default=False, help="One run; without it, all jobs.")] = "",
    /,
) -> ExitCode:
    """Remove what ended jobs left on their engines; their records are brought home first."""
    from busbw.cli.jobs import clean as clean_command

    return clean_command(run)
