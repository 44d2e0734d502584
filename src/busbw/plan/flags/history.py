"""The settings of ``busbw history``: which series it shows."""

# No postponed annotations here: cyclopts would look the names up in the module of the class that inherits.
from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from busbw.plan.flags.flag import Group
from busbw.plan.flags.values import Between, Ranged, Seconds, Size

HISTORY = Group("Which series", sort_key=1)


@Parameter(name="*")
@dataclass(frozen=True)
class HistorySettings(Ranged):
    """Filters; a series is shown where all of them fit."""

    size: Annotated[Size | None, Parameter(group=HISTORY, help="Only this size, launch by launch.")] = None
    since: Annotated[
        Seconds | None, Parameter(group=HISTORY, help="Launches no older than this: 30d, 12h.")
    ] = None
    limit: Annotated[
        int,
        Between(1),
        Parameter(name=["--limit", "-n"], group=HISTORY, help="Show at most this many."),
    ] = 20
    format: Annotated[
        Literal["table", "csv", "json"],
        Parameter(group=HISTORY, help="How to print it; csv and json have every launch."),
    ] = "table"

    @property
    def terms(self) -> tuple[str, ...]:
        """The flags that are terms of a selection (``record.selection``), as such."""
        return (f"{self.since:g}s",) if self.since else ()
