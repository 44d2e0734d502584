"""The settings of ``busbw list`` and ``busbw history``: which runs and series they show."""

from typing import Literal

from busbw.plan.flags.flag import Flags, settings
from busbw.plan.flags.values import Between, Ranged, Seconds, Size

of_list = Flags("Which runs", 1)
StatusName = Literal["complete", "wrong", "running", "failed", "interrupted", "killed", "not started"]


@settings
class ListSettings(Ranged):
    """Filters; a run is listed where all of them fit."""

    tag: tuple[str, ...] = of_list((), "With this tag. May be repeated.")
    operation: str = of_list("", "With this operation, or isolate, pairs, rails, preflight, exec.", "--op")
    status: StatusName | None = of_list(None, "With this status; wrong means wrong data.")
    since: Seconds | None = of_list(None, "No older than this: 7d, 12h, 30min.")
    limit: int = of_list(20, "Show at most this many.", "-n", Between(1))

    @property
    def terms(self) -> tuple[str, ...]:
        """The flags that are terms of a selection (``record.selection``), as such."""
        return (*(f"tag:{tag}" for tag in self.tag), *([f"{self.since:g}s"] if self.since else []))


of_history = Flags("Which series", 1)


@settings
class HistorySettings(Ranged):
    """Filters; a series is shown where all of them fit."""

    size: Size | None = of_history(None, "Only this size, launch by launch.")
    since: Seconds | None = of_history(None, "Launches no older than this: 30d, 12h.")
    limit: int = of_history(20, "Show at most this many.", "-n", Between(1))
    format: Literal["table", "csv", "json"] = of_history(
        "table", "How to print it; csv and json have every launch."
    )

    @property
    def terms(self) -> tuple[str, ...]:
        """The flags that are terms of a selection (``record.selection``), as such."""
        return (f"{self.since:g}s",) if self.since else ()
