"""The settings of ``busbw list``: which runs it lists."""

# No postponed annotations here: cyclopts would look the names up in the module of the class that inherits.
from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from busbw.plan.flags.flag import Group
from busbw.plan.flags.values import Between, Seconds, check_ranges

LIST = Group("Which runs", sort_key=1)
StatusName = Literal["complete", "wrong", "running", "failed", "interrupted", "killed", "not started"]


@Parameter(name="*")
@dataclass(frozen=True)
class ListSettings:
    """Filters; a run is listed where all of them fit."""

    tag: Annotated[tuple[str, ...], Parameter(group=LIST, help="With this tag. May be repeated.")] = ()
    operation: Annotated[
        str,
        Parameter(
            name=["--operation", "--op"],
            group=LIST,
            help="With this operation, or isolate, pairs, rails, preflight, exec.",
        ),
    ] = ""
    status: Annotated[
        StatusName | None, Parameter(group=LIST, help="With this status; wrong means wrong data.")
    ] = None
    since: Annotated[Seconds | None, Parameter(group=LIST, help="No older than this: 7d, 12h, 30min.")] = None
    limit: Annotated[
        int, Between(1), Parameter(name=["--limit", "-n"], group=LIST, help="Show at most this many.")
    ] = 20

    def __post_init__(self) -> None:
        """Raises UsageError for a number outside of its flag's range."""
        check_ranges(self)

    @property
    def terms(self) -> tuple[str, ...]:
        """The flags that are terms of a selection (``record.selection``), as such."""
        return (*(f"tag:{tag}" for tag in self.tag), *([f"{self.since:g}s"] if self.since else []))
