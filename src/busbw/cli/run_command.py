"""A command line that measures, as it was read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from busbw.model.event import Emit, Event
from busbw.plan.flags.launch import LaunchSettings
from busbw.plan.flags.run import RunSettings

if TYPE_CHECKING:
    from busbw.model.finding import Finding


def _ignore(item: Event) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class RunCommand:
    """What is to be measured, how and where; ``argv`` are the words that were typed, for the record. ``hear``
    gets every event that is shown. ``before`` was found earlier, and belongs into the record where this
    process starts the ranks.
    """

    operations: tuple[str, ...]
    settings: RunSettings
    launch: LaunchSettings
    argv: tuple[str, ...]
    hear: Emit = _ignore
    before: tuple[Finding, ...] = ()
