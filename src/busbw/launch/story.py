"""Everything that was seen and heard of a launch, for its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from busbw.launch.engine import JobState, Phase
from busbw.model.event import EventKind, Joiner
from busbw.model.plain import from_plain
from busbw.model.progress import HostStill

if TYPE_CHECKING:
    from busbw.errors import BusbwError
    from busbw.model.event import Event

# Lines of a launch that are shown where it failed.
LAST_LINES: Final = 5
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


class Listener:
    """Takes events and other lines in the order in which they come. Its attributes are for reading."""

    def __init__(self) -> None:
        self.connected = False  # all ranks were there
        self.hello: dict[int, str] = {}  # rank -> host
        self.errors: list[Event] = []  # those that wait for such a rank in a collective may wait for ever
        self.still: list[HostStill] = []  # of hosts where nothing moved
        self.left: list[HostStill] = []  # of hosts when a rank ended within a case
        self.end: Event | None = None  # rank 0's last
        self.output: list[str] = []  # what was no event
        self.out_of_time_s: float | None = None
        self._last_words: tuple[str, ...] = ()
        self._places: dict[int, str] = {}
        self._finished = 0
        self._joiner = Joiner()

    def whole(self, item: Event) -> Event | None:
        """The event, or the one that this part of it completes; None while parts are missing."""
        return self._joiner.take(item)

    def hear(self, item: Event) -> None:
        """Take a whole event."""
        kind = item["event"]
        if kind == EventKind.HELLO:
            self.hello[int(item["rank"])] = str(item["host"])
        elif kind == EventKind.ERROR:
            self.errors.append(item)
        elif kind == EventKind.STALL:
            still = from_plain(HostStill, item["still"])
            (self.still if still.quiet_s else self.left).append(still)
        elif kind == EventKind.END:
            self.end = item
        elif kind == EventKind.HEADER:
            self.connected = True
            self._places = {int(rank["rank"]): str(rank["host"]) for rank in item["world"]["ranks"]}
        elif kind == EventKind.CASE:
            self._finished += 1

    @property
    def is_wrong(self) -> bool:
        """Whether something was said for which the launch is to end."""
        return bool(self.errors or self.still)

    @property
    def all_still(self) -> bool:
        """Whether nothing moves where ranks have started: there is nothing to wait for."""
        return bool(self.still) and self.hello.keys() <= {
            each.page.rank for host in self.still for each in host.ranks
        }

    def run_out_of_time(self, limit_seconds: float) -> None:
        """Note that the launch is to be ended, and its last lines before that."""
        self.out_of_time_s = limit_seconds
        self._last_words = tuple(line for line in self.output if line.strip())[-LAST_LINES:]

    def story(self) -> Story:
        """What was heard; ``replace`` adds what else was seen."""
        return Story(
            hello=self.hello,
            places=self._places,
            connected=self.connected,
            finished=self._finished,
            errors=tuple(self.errors),
            still=tuple(self.still),
            left=tuple(self.left),
            end=self.end,
            output=tuple(self.output),
            out_of_time_s=self.out_of_time_s,
            last_words=self._last_words,
        )
