"""A run that this process starts: write the request, start the ranks, follow their events, judge how it
ended, and leave a closed record whatever happened.
"""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from busbw.errors import BusbwError, ExitCode, RankFailed, SiteError, UndecidedError
from busbw.launchers.base import LaunchRequest
from busbw.launchers.deaths import Death, first_complaint, last_words, lost_partner, read_death
from busbw.launchers.interrupt import Interrupt
from busbw.launchers.processes import Exit, Line, Processes
from busbw.launchers.watch import ADDRESS_VARIABLE, RankWatch
from busbw.model.event import Emit, Event, EventKind, Joiner, decode, error_words, event
from busbw.model.record import RunStatus
from busbw.record import close
from busbw.record import folder as folders
from busbw.record.findings import keep, merge
from busbw.worker.lead import error_event, now_utc

if TYPE_CHECKING:
    from busbw.model.finding import Finding
    from busbw.model.plan import Plan
    from busbw.settings.run import RunSettings

# How long the other ranks may take to say their last words once one has died.
LAST_WORDS_SECONDS: Final = 2.0
# Lines of a launch that are shown where it failed.
LAST_LINES: Final = 5
# Collectives that a run's name lists.
_NAMED: Final = 4


@dataclass
class Story:
    """What the launch said, in the order it came; the judgement is made from it at the end."""

    launch: LaunchRequest
    joiner: Joiner = field(default_factory=Joiner)
    errors: list[Event] = field(default_factory=list)
    end: Event | None = None
    hello: dict[int, tuple[int, str]] = field(default_factory=dict)  # process id -> rank, host
    places: dict[int, str] = field(default_factory=dict)  # rank -> host, once all are connected
    exits: dict[int, int] = field(default_factory=dict)  # process of the request -> code
    output: list[str] = field(default_factory=list)  # what was no event
    connected: bool = False  # all ranks were there
    finished: int = 0  # cases that ended
    someone_ended: bool = False  # a rank, without a goodbye
    first_dead: int | None = None  # the first of those that had started
    missing: tuple[int, ...] = ()  # ranks that had not started when it ended
    interrupted: bool = False
    out_of_time_s: float | None = None  # the limit that the launch ran into
    last_words: tuple[str, ...] = ()  # and its last lines then: a launcher that is ended adds its own

    def run_out_of_time(self, limit_seconds: float) -> None:
        """Note that the launch is to be ended."""
        self.out_of_time_s = limit_seconds
        self.last_words = tuple(line for line in self.output if line.strip())[-LAST_LINES:]

    @property
    def waiting(self) -> dict[int, Event]:
        """What ranks say for whom a round of a hunt does not end; they leave then, and are not what hangs."""
        return {int(item["rank"]): item for item in self.errors if item.get("waits")}

    def connect(self, header: Event) -> None:
        """All ranks are there, and where."""
        self.connected = True
        self.places = {int(rank["rank"]): str(rank["host"]) for rank in header["world"]["ranks"]}

    @property
    def has_gone_wrong(self) -> bool:
        """A rank ended or said that it cannot go on: those that wait for it in a collective may wait for
        ever.
        """
        return self.someone_ended or bool(self.errors) or any(self.exits.values())


def measure(
    plan: Plan,
    settings: RunSettings,
    argv: tuple[str, ...],
    request_for: Callable[[str], LaunchRequest],
    show: Emit,
    err: TextIO,
    *,
    folder: Path | None = None,
    limit_seconds: float | None = None,
    before: tuple[Finding, ...] = (),
) -> ExitCode:
    """Start ranks for the plan and show what they tell; the record is closed when this returns.

    ``request_for`` makes the launch request once the request file's place is known; ``folder`` is a run
    folder that exists, else a new one is made. A launch that takes longer than ``limit_seconds`` is ended and
    has failed. ``before`` was found earlier and belongs into the record. Raises what it raises, and
    UsageError where no run folder can be made.
    """
    folder = folder or folders.create(folders.environ_home(), new_run_id(plan))
    request_file = _write_request(folder, plan, settings, argv)
    keep(folder, before)
    for finding in before:
        show(event(EventKind.FINDING, finding=finding))
    launch = request_for(str(request_file))
    (request_file.parent / "commands.txt").write_text(f"{launch}\n")
    story = Story(launch)
    with Interrupt() as interrupt:
        try:
            follow(folder, story, show, err, interrupt, limit_seconds)
        except BrokenPipeError:  # the reader of our output has left: nobody wants the rest
            _close(folder, ExitCode.INTERRUPTED, None)
            raise
        code, error = judge(story, socket.gethostname())
        _close(folder, code, error)
        merge(folder)
    if error is not None:
        show(error)
    if (folder / folders.RUN_FILE).is_file():
        show(event(EventKind.END, exit_code=int(code), folder=str(folder)))
    return code


def new_run_id(plan: Plan) -> str:
    """A run's name from what it measures."""
    if plan.hunt is not None:
        return folders.new_run_id(plan.hunt.kind)
    names = list(dict.fromkeys(case.collective for case in plan.cases))
    many = f"{names[0]}+{len(names) - 1}-more" if names else ""
    return folders.new_run_id("+".join(names) if len(names) <= _NAMED else many)


def _write_request(folder: Path, plan: Plan, settings: RunSettings, argv: tuple[str, ...]) -> Path:
    body = {
        "run_id": folder.name,
        "folder": str(folder),
        "argv": argv,
        "settings": asdict(settings),
        "plan": plan.to_json(),
    }
    path = folder / folders.REQUEST_FILE
    path.write_text(json.dumps(body) + "\n")
    return path


def follow(
    folder: Path,
    story: Story,
    show: Emit,
    err: TextIO,
    interrupt: Interrupt,
    limit_seconds: float | None = None,
) -> None:
    """Start the story's request and show its events until all processes have ended, or we are told to end, or
    something went wrong and the other ranks had their time, or the time is up. No process is left afterwards.
    """
    wrong_since: float | None = None
    started_s = time.monotonic()
    with (
        (folder / folders.LOG_FILE).open("a") as log,
        contextlib.closing(RankWatch(story.launch.ranks)) as watch,
        Processes(_with_address(story.launch, watch.address), lambda: interrupt.insisted) as processes,
        watch,
    ):
        for item in processes.follow():
            if interrupt.requested:
                story.interrupted = True
                print("interrupted: ending the ranks", file=err)
                return
            if limit_seconds is not None and time.monotonic() - started_s > limit_seconds:
                story.run_out_of_time(limit_seconds)
                return
            if isinstance(item, Line):
                _take_line(item, story, show, log)
            elif isinstance(item, Exit):
                story.exits[item.process] = item.code
            story.someone_ended, story.first_dead = watch.someone_ended, watch.first_dead
            story.missing = watch.missing
            if wrong_since is None and story.has_gone_wrong:
                wrong_since = time.monotonic()
            if wrong_since is not None and time.monotonic() - wrong_since > LAST_WORDS_SECONDS:
                return


def _with_address(launch: LaunchRequest, address: str) -> LaunchRequest:
    commands = (
        replace(command, environ={**command.environ, ADDRESS_VARIABLE: address})
        for command in launch.commands
    )
    return replace(launch, commands=tuple(commands))


def _take_line(line: Line, story: Story, show: Emit, log: TextIO) -> None:
    heard = None if line.is_error else decode(line.text)
    if heard is None:
        log.write(line.text + "\n")
        log.flush()
        story.output.append(line.text)
        return
    if (item := story.joiner.take(heard)) is None:
        return
    kind = item["event"]
    if kind == EventKind.HELLO:
        story.hello[int(item["pid"])] = (int(item["rank"]), str(item["host"]))
    elif kind == EventKind.ERROR:
        story.errors.append(item)
    elif kind == EventKind.END:
        story.end = item
    else:
        if kind == EventKind.HEADER:
            story.connect(item)
        story.connected = True
        story.finished += kind == EventKind.CASE
        show(item)


def judge(story: Story, host: str) -> tuple[ExitCode, Event | None]:
    """How the run ended: its exit code, and the one error to show, the most telling of those that came.
    ``host`` is where the ranks are that say nothing of it, empty where that is not known.

    What a rank said about itself tells more than its exit, and its exit more than what others saw of it.
    Where all ranks wait, none of them is the cause, whatever ended while they left.
    """
    if story.interrupted:
        return ExitCode.INTERRUPTED, None
    if is_out_of_time(story):
        late = RankFailed(
            f"the launch had not ended after {story.out_of_time_s:g} s: {_how_far(story)}",
            hint="look at log/ in the run folder, or give it more time",
        )
        return late.exit_code, {**error_event(late), "last_words": list(story.last_words)}
    if (long := _too_long_a_round(story)) is not None:
        return long.exit_code, error_event(long)
    own = [error for error in story.errors if not (error.get("peer_lost") or _met_the_dead(error, story))]
    if own:
        return ExitCode(int(own[0]["exit_code"])), own[0]
    if (hung := _who_is_silent(story)) is not None:
        return hung.exit_code, error_event(hung)
    death = _find_death(story, host)
    if death is not None and not _has_waited(death, story):
        failed = _unstarted(death, story) or _describe(death, story)
        return failed.exit_code, error_event(failed)
    if story.waiting:
        some = _some_wait(story)
        return some.exit_code, error_event(some)
    if story.errors:
        return ExitCode(int(story.errors[0]["exit_code"])), story.errors[0]
    if story.end is not None:
        return ExitCode(int(story.end["exit_code"])), None
    lost = RankFailed("the ranks ended without a result", hint="look at log/ in the run folder")
    return lost.exit_code, error_event(lost)


def is_out_of_time(story: Story) -> bool:
    """Whether the launch was ended since it took too long: its ranks had no end, or were told to end."""
    if story.out_of_time_s is None:
        return False
    return story.end is None or int(story.end["exit_code"]) == ExitCode.INTERRUPTED


def _how_far(story: Story) -> str:
    """Where a launch was that ran out of its time: what hangs while starting is looked for elsewhere than
    what hangs in an operation.
    """
    if story.finished:
        return f"{story.finished} cases had ended"
    if story.connected:
        return "its ranks were connected, and no case had ended"
    if story.hello:
        return f"{len(story.hello)} ranks had started, and were not ready to measure"
    return "no rank had said anything"


def _too_long_a_round(story: Story) -> UndecidedError | None:
    """Where every rank says that it waits, nobody is stopped: there is nobody to name."""
    if not story.waiting or not story.places or story.places.keys() - story.waiting.keys():
        return None
    doing = _first_words(story)
    return UndecidedError(
        f"all {len(story.waiting)} ranks waited: {doing} (--round-timeout)",
        hint="give a smaller -b or a longer --round-timeout, or look for a link that carries next to nothing",
    )


def _first_words(story: Story) -> str:
    return str(next(iter(story.waiting.values()))["message"])


def _met_the_dead(error: Event, story: Story) -> bool:
    """Whether a rank failed since another one, which ended before it, was gone."""
    return story.first_dead not in (None, error["rank"]) and lost_partner(str(error["message"]))


def _who_is_silent(story: Story) -> RankFailed | None:
    """Where ranks say that they wait, the one that hangs is the one that says nothing."""
    waiting = story.waiting
    silent = {rank: host for rank, host in story.places.items() if rank not in waiting}
    if not waiting or not silent or len(silent) > len(waiting):
        return None
    hosts = list(dict.fromkeys(silent.values()))
    ranks = ", ".join(map(str, sorted(silent)))
    who = f"rank{'s' * (len(silent) > 1)} {ranks} on {', '.join(hosts)}"
    one, first = len(hosts) == 1, next(iter(waiting))
    doing = f"rank {first} in {waiting[first]['message']}"
    return RankFailed(
        f"{who} said nothing while {len(waiting)} others waited: {doing}",
        hint="look at that host: a stopped process, a hung driver or a cut network",
        rank=min(silent) if one else None,
        host=hosts[0] if one else "",
    )


def _has_waited(death: Death, story: Story) -> bool:
    """Whether this end is that of a rank that said that it waits, and left."""
    return bool(story.waiting) and (death.rank in story.waiting or death.code == ExitCode.RANK_FAILED)


def _some_wait(story: Story) -> RankFailed:
    """Too few told that they wait to say who hangs."""
    ranks, doing = ", ".join(map(str, sorted(story.waiting))), _first_words(story)
    return RankFailed(
        f"only rank{'s' * (len(story.waiting) > 1)} {ranks} waited: {doing}",
        hint="look at log/ in the run folder for what ended the others",
    )


def _find_death(story: Story, host: str) -> Death | None:
    """The rank that died: which one is known from its connection, how it ended from its launcher or its own
    exit.
    """
    told = read_death(story.output)
    first = story.first_dead
    if told is not None:
        named, place = story.hello.get(told.pid or 0, (None, told.host))
        if first is None:  # hydra's process may be one that it killed itself
            return Death(place, told.pid, told.rank, told.code)
        known = not story.missing and first in (named, told.rank)
        return Death(place, told.pid, first, told.code if known else None)
    if first is not None and story.end is None:
        code = story.exits.get(first) if story.launch.process_is_rank else None
        if not _left_for_another(code, story):
            return Death(host, rank=first, code=code)
    # A signal is the cause; a rank that left with a code may have left because another died.
    for process, code in sorted(story.exits.items(), key=lambda item: item[1]):
        if code < 0 or (code != 0 and story.end is None and not _left_for_another(code, story)):
            return Death(host, rank=process if story.launch.process_is_rank else None, code=code)
    return None


def _left_for_another(code: int | None, story: Story) -> bool:
    """A rank that lost another one says so, or leaves that to rank 0, and leaves with this code."""
    return code == ExitCode.RANK_FAILED and bool(story.errors)


def _unstarted(death: Death, story: Story) -> SiteError | None:
    """Where the launch gave up before any rank was heard, its place is to blame, in its own words. None where
    a process was killed: shells and srun tell that by 128 and the signal's number.
    """
    heard = story.connected or story.hello or story.someone_ended or death.rank is not None
    code = death.code or 0
    if heard or death.pid is not None or code <= 0 or 128 < code <= 128 + signal.NSIG:
        return None
    words = last_words(story.output) or first_complaint(story.output)
    where = f" on {death.host}" if death.host else ""
    return SiteError(
        f"the launch{where} {_how(code)} before any rank said a word",
        hint=f"its last words: {words}" if words else "look at log/ in the run folder",
        host=death.host,
    )


def _describe(death: Death, story: Story) -> BusbwError:
    words = last_words(story.output)
    hint = (
        f"its last words: {words}"
        if words
        else "look at log/ in the run folder, and for its host's OOM killer"
    )
    if death.rank is not None and story.missing:
        late = ", ".join(map(str, story.missing))
        who = f"rank {death.rank} on {death.host}, or one that had not started yet ({late}),"
        return RankFailed(f"{who} {_how(death.code)}", hint=hint, host=death.host)
    who = f"rank {death.rank}" if death.rank is not None else "a rank"
    if death.host:
        who += f" on {death.host}"
    elif death.rank is None:
        who = "the launch"  # its own end says no more
    return RankFailed(f"{who} {_how(death.code)}", hint=hint, rank=death.rank, host=death.host)


def _how(code: int | None) -> str:
    if code is None:
        return "ended first, and the launcher ended the others"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _close(folder: Path, code: ExitCode, error: Event | None) -> None:
    """Give the record the end that was judged, where the ranks could not write it or knew less."""
    from busbw.record.parquet import compact

    status = close.read_status(folder)
    if status is None:
        return
    if code is ExitCode.INTERRUPTED:
        if status is not RunStatus.COMPLETE:
            close.close(folder, RunStatus.INTERRUPTED, now_utc())
    elif error is not None:
        close.close(folder, RunStatus.FAILED, now_utc(), error=error_words(error), hint=str(error["hint"]))
    compact(folder)
