"""Commands about jobs on engines."""

from __future__ import annotations

from typing import Annotated, Literal

from busbw.cli.app import PRINTED, RunName, command, flag, run_names, word
from busbw.errors import ExitCode
from busbw.plan.flags.ranks import FormatName


@command("busbw jobs", "busbw jobs --format json")
def jobs(
    *,
    format: Annotated[  # noqa: A002
        Literal["table", "json", "csv"],
        flag("How to print it; csv also has nodes, operations and ranks."),
    ] = "table",
    limit: Annotated[int, flag("Show no more than this many.")] = 20,
) -> ExitCode:
    """List the jobs that were submitted from here."""
    from busbw.cli.jobs import jobs as jobs_command

    return jobs_command(format, limit)


@command("busbw attach", "busbw attach 20261121-1815 --format jsonl")
def attach(
    run: RunName = "last",
    /,
    *,
    format: Annotated[FormatName, PRINTED] = "table",  # noqa: A002
) -> int:
    """Follow a job again, from its first row. Ctrl-C leaves it running."""
    from busbw.cli.jobs import attach as attach_command

    return attach_command(run, format)


@command("busbw cancel last", "busbw cancel 20261121-1815 --now")
def cancel(
    run: RunName = "",
    /,
    *,
    now: Annotated[bool, flag("Kill immediately; do not wait for final output.")] = False,
) -> ExitCode:
    """End a job; what it measured so far is kept."""
    from busbw.cli.jobs import cancel as cancel_command

    return cancel_command(run, now=now)


@command("busbw clean", "busbw clean 20261121-1815")
def clean(
    run: Annotated[str, word("One job. [default: all of them]", completer=run_names)] = "", /
) -> ExitCode:
    """Fetch the records of ended jobs, then remove what they left on their engines."""
    from busbw.cli.jobs import clean as clean_command

    return clean_command(run)
