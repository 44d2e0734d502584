"""The settings of ``busbw list``: which runs it lists."""

# No postponed annotations here: cyclopts would look the names up in the module of the class that inherits.
from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from busbw.plan.flags.flag import Group
from busbw.plan.flags.values import Between, Ranged, Seconds

LIST = Group("Which runs", sort_key=1)
StatusName = Literal["complete", "wrong", "running", "failed", "interrupted", "killed", "not started"]


@Parameter(name="*", group=LIST)
@dataclass(frozen=True)
class ListSettings(Ranged):
    """Filters; a run is listed where all of them fit."""

    tag: Annotated[tuple[str, ...], Parameter(help="With this tag. May be repeated.")] = ()
    operation: Annotated[
        str,
        Parameter(
            name=["--operation", "--op"],
            help="With this operation, or isolate, pairs, rails, preflight, exec.",
        ),
    ] = ""
    status: Annotated[StatusName | None, Parameter(help="With this status; wrong means wrong data.")] = None
    since: Annotated[Seconds | None, Parameter(help="No older than this: 7d, 12h, 30min.")] = None
    limit: Annotated[int, Between(1), Parameter(name=["--limit", "-n"], help="Show at most this many.")] = 20

    @property
    def terms(self) -> tuple[str, ...]:
        """The flags that are terms of a selection (``record.selection``), as such."""
        return (*(f"tag:{tag}" for tag in self.tag), *([f"{self.since:g}s"] if self.since else []))
