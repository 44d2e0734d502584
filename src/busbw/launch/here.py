"""A run that this process starts: write the request, start the ranks, follow their events, and leave a closed
record whatever happened.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from busbw.errors import ExitCode
from busbw.launch.interrupt import Interrupt
from busbw.launch.leftovers import remove_leftovers
from busbw.launch.observed import NOT_SHOWN, Listener, Story
from busbw.launch.processes import Exit, Line, Processes
from busbw.launch.witness import Witness
from busbw.model.event import Emit, Event, EventKind, error_words, event, now_utc
from busbw.model.record import RunStatus
from busbw.rank import progress
from busbw.rank.world.watched import FRONT_VARIABLE
from busbw.record import close
from busbw.record import folder as folders
from busbw.record.findings import keep, merge
from busbw.redact import redact_all, redact_words

if TYPE_CHECKING:
    from busbw.launch.base import LaunchRequest
    from busbw.launch.verdict import Verdict
    from busbw.model.finding import Finding
    from busbw.model.plan import Plan
    from busbw.plan.flags.run import RunSettings

# How long the other ranks may take to say their last words once one has died.
LAST_WORDS_SECONDS: Final = 2.0


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
    meanwhile: tuple[Callable[[], object], ...] = (),
    at_end: Callable[[Path], object] = lambda _: None,
) -> ExitCode:
    """Start ranks for the plan and show what they report; the record is closed when this returns.

    ``request_for`` makes the launch request once the request file's place is known; ``folder`` is a run
    folder that exists, else a new one is made. A launch that takes longer than ``limit_seconds`` is ended and
    has failed. ``before`` was found earlier and belongs into the record. What is to be
    done ``meanwhile`` each gets a thread once the ranks are there, all but the first only where a core is
    left. ``at_end`` is called with the folder once its record is complete, while the ranks take down their
    libraries; it may still come to an error then. Raises what ``request_for`` raises, and
    UsageError where no run folder can be made.
    """
    folder = folder or new_folder(plan, settings)
    request_file = write_request(folder, plan, settings, argv)
    keep(folder, before)
    for finding in before:
        show(event(EventKind.FINDING, finding=finding))
    launch = request_for(str(request_file))
    folders.replace_text(request_file.parent / "commands.txt", (f"{launch}\n",))
    launch = launch.given({}, {progress.VARIABLE: str(settings.stall)})
    began_s = time.time()
    with Interrupt() as interrupt:
        try:
            story = _follow(folder, launch, show, err, interrupt, limit_seconds, meanwhile, at_end)
            if not story.all_left:
                remove_leftovers(began_s)
        except BrokenPipeError:  # the reader of our output has left: nobody wants the rest
            from busbw.launch.verdict import Verdict

            close_record(folder, Verdict(ExitCode.INTERRUPTED))
            raise
        from busbw.launch.verdict import judge  # the first row need not wait for it

        verdict = judge(story)
        close_record(folder, verdict)
    show_end(folder, verdict, show)
    return verdict.code


def show_end(folder: Path, verdict: Verdict, show: Emit) -> None:
    """Show how a run ended."""
    if verdict.error is not None:
        show(verdict.error)
    if folders.is_started(folder):
        show(event(EventKind.END, exit_code=int(verdict.code), folder=str(folder)))


def new_folder(plan: Plan, settings: RunSettings) -> Path:
    """A run folder whose name says what it measures. Raises UsageError where none can be made."""
    label = settings.label(case.collective for case in plan.cases)
    return folders.create(folders.environ_home(), folders.new_run_id(label))


def write_request(
    folder: Path, plan: Plan, settings: RunSettings | None, argv: tuple[str, ...], **own: object
) -> Path:
    """The request of a run as ``record.close`` reads it; ``own`` goes to its settings."""
    body = {
        "run_id": folder.name,
        "folder": str(folder),
        "argv": redact_words(argv),
        "settings": redact_all({**(settings.written() if settings is not None else {}), **own}),
        "plan": plan.to_json(),
    }
    path = folder / folders.REQUEST_FILE
    folders.replace_text(path, (json.dumps(body), "\n"))
    return path


def _follow(
    folder: Path,
    launch: LaunchRequest,
    show: Emit,
    err: TextIO,
    interrupt: Interrupt,
    limit_seconds: float | None,
    meanwhile: tuple[Callable[[], object], ...],
    at_end: Callable[[Path], object],
) -> Story:
    """Start the request and show its events until all processes have ended, or a signal asks us to end, or
    something went wrong and the other ranks had their time, or the time is up. No process is left afterwards.
    """
    exits = dict[int, int]()
    interrupted, wrong_since_s = False, 0.0
    started_s = time.monotonic()
    has_core = (os.cpu_count() or 1) > launch.ranks  # else it would take one from a rank that starts
    waiting = list(meanwhile) if has_core else list(meanwhile[:1])
    with (
        (folder / folders.LOG_FILE).open("a", buffering=1) as log,
        contextlib.closing(Witness(launch.ranks)) as witness,
        Processes(
            launch.given({}, {FRONT_VARIABLE: witness.address}).commands, lambda: interrupt.insisted
        ) as processes,
    ):
        heard = Listener(log.write)
        witness.follow(processes.pids, are_ranks=launch.process_is_rank)
        for item in processes.follow(lambda: witness.idle_seconds):
            witness.look()
            while waiting and witness.is_complete:  # not before: who ends first must be seen
                threading.Thread(target=waiting.pop(), name="busbw-meanwhile", daemon=True).start()
            now_s = time.monotonic()
            if interrupt.requested:
                interrupted = True
                print("interrupted: ending the ranks", file=err)
                witness.end_first_rank(LAST_WORDS_SECONDS)
                break
            if limit_seconds is not None and now_s - started_s > limit_seconds:
                heard.run_out_of_time(limit_seconds)
                break
            if isinstance(item, Line):
                was_under_way = heard.story.end is None
                _take_line(item, heard, show, witness)
                if was_under_way and heard.story.end is not None and not heard.story.is_wrong:
                    merge(folder)
                    at_end(folder)
            elif isinstance(item, Exit):
                exits[item.process] = item.code
            is_wrong = heard.story.is_wrong or any(exits.values())
            if is_wrong or witness.someone_ended or witness.lost_launcher:
                wrong_since_s = wrong_since_s or now_s
            if heard.story.all_still or (wrong_since_s and now_s - wrong_since_s > LAST_WORDS_SECONDS):
                break
        witness.look()
        witness.end_ranks()
        story = replace(heard.story, exits=exits, interrupted=interrupted, host=socket.gethostname())
        return witness.add_to(replace(story, process_is_rank=launch.process_is_rank))


def _take_line(line: Line, heard: Listener, show: Emit, witness: Witness) -> None:
    found = heard.take(line.text, may_be_event=not line.is_error)
    if isinstance(found, dict) and found["event"] == EventKind.HELLO:
        witness.hear(int(found["pid"]), int(found["rank"]))
    elif isinstance(found, dict) and found["event"] not in NOT_SHOWN:
        show(found)


def close_with(folder: Path, error: Event) -> None:
    """Give the record the end of a run that failed."""
    words = {"error": error_words(error), "hint": str(error["hint"])}
    close.close(folder, RunStatus.FAILED, now_utc(), **words, hang=error.get("hang"))


def close_record(folder: Path, verdict: Verdict) -> None:
    """Give the record the end that was judged, where the ranks could not write it or knew less."""
    from busbw.record.parquet import compact, is_worthwhile

    error = verdict.error
    if verdict.code is ExitCode.INTERRUPTED:
        if close.read_status(folder) is not RunStatus.COMPLETE:
            close.close(folder, RunStatus.INTERRUPTED, now_utc())
    elif error is not None:
        close_with(folder, error)
    if is_worthwhile(folder):
        compact(folder)
    merge(folder)
