"""The settings of ``busbw history``: which series it shows."""

from typing import Literal

from busbw.plan.flags.flag import Flags, settings
from busbw.plan.flags.values import Between, Ranged, Seconds, Size

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
