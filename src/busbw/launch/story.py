"""Everything that was seen and heard of a launch, for its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from busbw.launch.engine import JobState, Phase

if TYPE_CHECKING:
    from busbw.errors import BusbwError
    from busbw.model.event import Event
    from busbw.model.progress import HostStill

_NO_ENGINE: Final = JobState(Phase.ENDED)


@dataclass(frozen=True)
class Story:
    """Everything that was seen of a launch when it is judged.

    ``job`` is its number on an engine, empty where this process started the ranks; ``state`` is what that
    engine knows. ``host`` is where ranks are that do not say it, empty where that is not known.
    """

    host: str = ""
    job: str = ""
    is_command: bool = False  # of the user's: what it prints is all that it says
    process_is_rank: bool = False  # the processes of ``exits`` are ranks; else a launcher started those
    # What ranks and launchers said.
    hello: Mapping[int, str] = field(default_factory=dict)  # rank -> host, of those that started
    places: Mapping[int, str] = field(default_factory=dict)  # rank -> host, once all are connected
    connected: bool = False  # all ranks were there
    finished: int = 0  # cases that ended
    errors: Sequence[Event] = ()
    still: Sequence[HostStill] = ()  # what watchers saw of hosts where nothing moved
    left: Sequence[HostStill] = ()  # and of hosts when a rank ended within a case
    end: Event | None = None
    output: Sequence[str] = ()  # what was no event
    # What was seen from outside.
    exits: Mapping[int, int] = field(default_factory=dict)  # process -> exit code, negative for a signal
    someone_ended: bool = False  # a rank, without a goodbye
    all_left: bool = False  # every rank said goodbye
    first_dead: int | None = None  # the first of those that had started
    missing: tuple[int, ...] = ()  # ranks that had not started when it ended
    pids: Mapping[int, int] = field(default_factory=dict)  # of ranks on ``host``: process id -> rank
    lost_launcher: str = ""  # the name of the launcher's process that ended before any rank
    state: JobState = _NO_ENGINE
    # What this process did.
    given_up: BusbwError | None = None  # it does not start
    interrupted: bool = False
    out_of_time_s: float | None = None  # the limit that the launch ran into
    last_words: tuple[str, ...] = ()  # and its last lines then: a launcher that is ended adds its own

    @property
    def waiting(self) -> dict[int, Event]:
        """By rank, what those say that wait for others in a round of a hunt; they leave, and do not hang."""
        return {int(item["rank"]): item for item in self.errors if item.get("waits")}
