"""Everything that was seen and heard of a launch, for its verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from busbw.errors import BusbwError
from busbw.launch.engine import JobState, Phase
from busbw.model.event import Event, EventKind, Joiner, decode
from busbw.model.plain import from_plain
from busbw.model.progress import HostStill
from busbw.redact import redact_text

# Lines of a launch that are shown where it failed.
LAST_LINES: Final = 5
# Events that are for the judge and the record: how ranks ended is shown when it is judged.
NOT_SHOWN: Final = frozenset(
    (EventKind.HELLO, EventKind.STALL, EventKind.ERROR, EventKind.END, EventKind.RECORD)
)
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

    @property
    def is_wrong(self) -> bool:
        """Whether something was said for which the launch is to end: who waits for a rank that failed, in a
        collective, may wait for ever.
        """
        return bool(self.errors or self.still)

    @property
    def all_still(self) -> bool:
        """Whether nothing moves where ranks have started: there is nothing to wait for."""
        return bool(self.still) and self.hello.keys() <= {
            each.page.rank for host in self.still for each in host.ranks
        }


class Listener:
    """Takes what a launch prints, line by line: ``story`` has what was heard so far, and ``replace`` adds
    what else was seen. Lines that are no events go to ``log``; an event that is not new is left out.
    """

    def __init__(
        self, log: Callable[[str], object], is_new: Callable[[Event], bool] = lambda _: True
    ) -> None:
        self.output: list[str] = []  # the story's
        self.story = Story(output=self.output)
        self._log, self._is_new, self._joiner = log, is_new, Joiner()

    def take(self, text: str, source: str = "", *, may_be_event: bool = True) -> Event | str | None:
        """The event that a line completes, or its text where it is none; None while parts are missing, and
        for an event that is not new. ``source`` is the node or pod that printed it, where known.
        """
        if may_be_event and (item := decode(text)) is not None:
            whole = self._joiner.take(item)
            if whole is None or not self._is_new(whole):
                return None
            self.hear(whole)
            return whole
        text = redact_text(text)
        self._log(f"{source}: {text}\n" if source else text + "\n")
        self.output.append(text)
        return text

    def hear(self, item: Event) -> None:
        """Take a whole event."""
        self.story = replace(self.story, **_changes(item, self.story))

    def run_out_of_time(self, limit_seconds: float) -> None:
        """Note that the launch is to be ended, and its last lines before that."""
        last_words = tuple(line for line in self.output if line.strip())[-LAST_LINES:]
        self.story = replace(self.story, out_of_time_s=limit_seconds, last_words=last_words)


def _changes(item: Event, so_far: Story) -> dict[str, Any]:
    """The fields of a story that an event changes."""
    match item["event"]:
        case EventKind.HELLO:
            return {"hello": {**so_far.hello, int(item["rank"]): str(item["host"])}}
        case EventKind.ERROR:
            return {"errors": (*so_far.errors, item)}
        case EventKind.STALL:
            still = from_plain(HostStill, item["still"])
            name = "still" if still.quiet_s else "left"
            return {name: (*getattr(so_far, name), still)}
        case EventKind.END:
            return {"end": item}
        case EventKind.HEADER:
            places = {int(rank["rank"]): str(rank["host"]) for rank in item["world"]["ranks"]}
            return {"connected": True, "places": places}
        case EventKind.CASE:
            return {"finished": so_far.finished + 1}
    return {}
