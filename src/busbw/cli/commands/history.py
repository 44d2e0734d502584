"""Commands about what is known of many runs."""

from __future__ import annotations

from typing import Annotated

from busbw.cli.app import SELECTION, CleanApp, RunName, app, command, examples, flag, word
from busbw.errors import ExitCode
from busbw.plan.flags.history import HistorySettings

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
def accept(
    run: RunName,
    /,
    *,
    why: Annotated[str, flag("The reason; empty takes it back.")],
) -> ExitCode:
    """Take the level of a run as the new one: what comes is held against it."""
    from busbw.cli.history import say

    return say(run, "accepted", why)


@command('busbw history exclude 20261121-1815 --why "another job used the links"', of=history)
def exclude(
    run: RunName,
    /,
    *,
    why: Annotated[str, flag("The reason; empty takes it back.")],
) -> ExitCode:
    """Leave a run out of its series, and of what later ones are held against."""
    from busbw.cli.history import say

    return say(run, "excluded", why)
