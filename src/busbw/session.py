"""A run that this process starts: submit the request, follow the event stream, judge how it ended."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

from busbw.errors import BusbwError, ExitCode, RankFailed
from busbw.launchers.base import LaunchRequest
from busbw.launchers.processes import Exit, Line, Processes
from busbw.model.event import Emit, Event, EventKind, decode, event
from busbw.model.record import RunRecord, RunStatus
from busbw.record.folder import LOG_FILE
from busbw.record.write import write_record

# How long the other ranks may take to say their last words once one has died.
LAST_WORDS_SECONDS = 3.0

# What launchers print about a dead rank: MPICH's hydra (a process id), Open MPI's mpirun (a rank).
_HYDRA_DEATH = re.compile(r"PID (\d+) RUNNING AT (\S+)")
_HYDRA_CODE = re.compile(r"EXIT CODE: (\d+)")
_OPEN_MPI_DEATH = re.compile(r"rank (\d+) with PID (\d+) on node (\S+) exited on signal (\d+)")


@dataclass
class Story:
    """What the launch said, in the order it came; the judgement is made from it at the end."""

    errors: list[Event] = field(default_factory=list)
    end: Event | None = None
    hello: dict[int, tuple[int, str]] = field(default_factory=dict)  # process id -> rank, host
    exits: dict[int, int] = field(default_factory=dict)  # process of the request -> code
    launcher_text: list[str] = field(default_factory=list)
    shown: int = 0


def follow(
    request: LaunchRequest, folder: Path, show: Emit, err: TextIO, clock: Callable[[], float]
) -> tuple[Story, bool]:
    """Start the request and show its events until all processes have ended; (story, interrupted)."""
    story, died_at = Story(), None
    with (folder / LOG_FILE).open("a") as log, Processes(request) as processes:
        try:
            for item in processes.follow():
                if isinstance(item, Line):
                    _take_line(item, story, show, log)
                elif isinstance(item, Exit):
                    story.exits[item.process] = item.code
                    if item.code != 0 and died_at is None:
                        died_at = clock()
                if died_at is not None and clock() - died_at > LAST_WORDS_SECONDS:
                    break
        except KeyboardInterrupt:
            print("interrupted: ending the ranks", file=err)
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second Ctrl-C ends us at once
            return story, True
    return story, False


def _take_line(line: Line, story: Story, show: Emit, log: TextIO) -> None:
    item = None if line.is_error else decode(line.text)
    if item is None:
        log.write(line.text + "\n")
        log.flush()
        story.launcher_text.append(line.text)
        return
    kind = item["event"]
    if kind == EventKind.HELLO:
        story.hello[int(item["pid"])] = (int(item["rank"]), str(item["host"]))
    elif kind == EventKind.ERROR:
        story.errors.append(item)
    elif kind == EventKind.END:
        story.end = item
    else:
        story.shown += kind == EventKind.CASE
        show(item)


def judge(story: Story, interrupted: bool, host: str) -> tuple[ExitCode, Event | None]:
    """How the run ended: its exit code, and the one error to show, the most telling of those that came."""
    if interrupted:
        return ExitCode.INTERRUPTED, None
    own = [error for error in story.errors if not error.get("peer_lost")]
    if own:
        return ExitCode(int(own[0]["exit_code"])), own[0]
    death = _death(story, host)
    if death is not None:
        return death.exit_code, _error_event(death)
    if story.errors:
        return ExitCode(int(story.errors[0]["exit_code"])), story.errors[0]
    if story.end is not None:
        return ExitCode(int(story.end["exit_code"])), None
    lost = RankFailed("the ranks ended without a result", hint="the run folder's log has what they printed")
    return lost.exit_code, _error_event(lost)


def _death(story: Story, host: str) -> RankFailed | None:
    """The rank that died, from what the launcher printed or from the process itself."""
    text = "\n".join(story.launcher_text)
    if match := _OPEN_MPI_DEATH.search(text):
        rank, _, node, number = match.groups()
        return _died(int(rank), node, -int(number), story)
    if match := _HYDRA_DEATH.search(text):
        rank, node = story.hello.get(int(match.group(1)), (-1, match.group(2)))
        code = _HYDRA_CODE.search(text)
        return _died(rank, node, -int(code.group(1)) if code else 0, story)
    for process, code in story.exits.items():
        if code < 0 or (code != 0 and len(story.exits) > 1):
            return _died(process, host, code, story)
    failed = [code for code in story.exits.values() if code]
    return _died(-1, host, failed[0], story) if failed and story.end is None else None


def _died(rank: int, host: str, code: int, story: Story) -> RankFailed:
    who = f"rank {rank} on {host}" if rank >= 0 else f"a rank or its launcher on {host}"
    try:
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    except ValueError:
        how = f"ended with exit code {-code}"
    last = next((line for line in reversed(story.launcher_text) if line.strip()), "") if code > 0 else ""
    hint = (
        f"its last words: {last.strip()}"
        if last
        else "finished cases are in the record; see the log beside it"
    )
    return RankFailed(f"{who} {how}", hint=hint, rank=rank if rank >= 0 else None, host=host)


def _error_event(error: BusbwError) -> Event:
    return event(
        EventKind.ERROR,
        message=error.message,
        hint=error.hint,
        rank=error.rank,
        host=error.host,
        exit_code=int(error.exit_code),
    )


def close_record(folder: Path, record: RunRecord, status: RunStatus, ended: str, error: Event | None) -> None:
    """Write the end into a record whose ranks could not."""
    message = str(error["message"]) if error is not None else ""
    hint = str(error["hint"]) if error is not None else ""
    write_record(folder, replace(record, status=status, ended=ended, error=message, hint=hint))
