"""One job that runs all launches of a series: what is sent to it, and its output as that of the launches.

The job runs ``job_loop``. Each launch is planned, judged and recorded here, as a job of its own would be: to
``follow`` the whole is one job.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from busbw.errors import BusbwError, ExitCode, SiteError, UsageError
from busbw.launch import follow, job_loop, submit
from busbw.launch.base import Command
from busbw.launch.engine import Job, JobRequest, JobState, LaunchReader, Output, optional
from busbw.launch.interrupt import Interrupt
from busbw.launch.series import (
    INTERRUPTED,
    Launches,
    Planned,
    Series,
    create_series,
    is_series,
    planned_launches,
    read_plan,
)
from busbw.model.event import Event, EventKind
from busbw.plan.flags.engines import ENGINES
from busbw.record import folder as folders

if TYPE_CHECKING:
    from busbw.launch.series_plan import SeriesPlan
    from busbw.plan.setups import Setup

# A line of the loop.
_LINE: Final = re.compile(r"@(\d+) ([oe=]) (.*)", re.DOTALL)
# Stands for a launch's number in what is rendered once for all launches of a setup.
_NUMBER: Final = "@number@"
# Linux takes no longer word (MAX_ARG_STRLEN).
_MOST_WORD_BYTES: Final = 131_000
# What --dry-run shows in the place of the program and its task.
_SHOWN: Final = ("-c", "job_loop.py", "LAUNCHES")


# ---- what is sent ------------------------------------------------------------------------------------------


def _series_job(plan: SeriesPlan, folder: Path) -> Job:
    """The job: on the largest number of nodes, with room for the most ranks of a node, and without the
    setups' variables.
    """
    nobody, nodes = replace(plan.setups[0], environ={}, prepend={}), max(plan.counts)
    job = plan.job_of(nobody, nodes, folder)
    if job.ranks is None or not nodes:
        return job
    return replace(job, ranks=nodes * max(-(-job.ranks // count) for count in plan.counts))


def _start(plan: SeriesPlan, setup: Setup, nodes: int, folder: Path) -> Command:
    """How a setup is started in the series' job, whatever the launch's number. Raises UsageError."""
    job = plan.job_of(setup, nodes, folder / folders.LAUNCHES / _NUMBER, folder.name)
    marked = replace(job, environ={**job.environ, job_loop.MARK: folder.name})
    return plan.engine.start(marked, _series_job(plan, folder), plan.facts)


def show_job(plan: SeriesPlan) -> tuple[JobRequest, Command]:
    """The job and the baseline's launch in it, for --dry-run. Raises UsageError."""
    folder = folders.environ_home() / "compare"
    request = plan.engine.series_request(_series_job(plan, folder), _SHOWN, plan.facts)
    return request, _start(plan, plan.setups[0], plan.counts[0], folder)


def series_request(plan: SeriesPlan, series: Series) -> JobRequest:
    """The job of a series that was made. Raises UsageError."""
    job = _series_job(plan, series.folder)
    sweep = ("sh", "-c", job_loop.SWEEP, "busbw-sweep", series.folder.name)
    task = {
        "mark": series.folder.name,
        "sweep": plan.engine.sweep(job, sweep, plan.facts),
        "launches": list(_launches(plan, series)),
    }
    packed = base64.b64encode(zlib.compress(json.dumps(task).encode(), 9)).decode()
    if len(packed) > _MOST_WORD_BYTES:
        raise UsageError(
            f"{series.planned} launches do not fit into one job ({len(packed)} bytes)",
            hint="give fewer --blocks, or fewer numbers of nodes, and measure a second series",
        )
    return plan.engine.series_request(job, ("-c", Path(job_loop.__file__).read_text(), packed), plan.facts)


def _launches(plan: SeriesPlan, series: Series) -> Iterator[dict[str, Any]]:
    starts = {
        (setup.name, nodes): _start(plan, setup, nodes, series.folder)
        for setup in plan.setups
        for nodes in plan.counts
    }
    for planned in planned_launches(series):
        start = starts[planned.setup, planned.nodes]
        number = planned.folder.name
        yield {
            "number": planned.number,
            "setup": f"{planned.setup} on {planned.nodes}",
            "argv": [word.replace(_NUMBER, number) for word in start.argv],
            "environ": {name: text.replace(_NUMBER, number) for name, text in start.environ.items()},
            "limit_s": plan.limit_seconds or 0.0,
        }


def submit_series(plan: SeriesPlan, count: int, seed: int) -> Path:
    """Submit a series of ``count`` blocks; its folder. Raises SiteError with the engine's own words,
    UsageError where the engine cannot run it; no folder is left then.
    """
    series = create_series(plan.setups, count, seed, plan.counts, plan.environ, plan.settings)
    try:
        _write_launches(plan, series)
        request = series_request(plan, series)
        for note in request.notes:
            plan.say(f"note: {note}")
        handle = submit.submit_files(request, series.folder)
    except BusbwError:
        shutil.rmtree(series.folder, ignore_errors=True)
        raise
    nodes = "1 node" if request.nodes == 1 else f"{request.nodes} nodes"
    what = f"submitted {handle.engine} job {handle.id}: {nodes}, for all launches"
    plan.say(f"{what}, as series {series.folder.name}")
    return series.folder


def _write_launches(plan: SeriesPlan, series: Series) -> None:
    """A run folder for every launch: ranks write into it where they see it. Raises UsageError."""
    by_name = {setup.name: setup for setup in plan.setups}
    requests: dict[tuple[str, int], JobRequest] = {}
    for planned in planned_launches(series):
        setup, kind = by_name[planned.setup], (planned.setup, planned.nodes)
        folder = folders.create(planned.folder.parent, planned.folder.name)
        job = plan.job_of(setup, planned.nodes, folder)
        if kind not in requests:
            requests[kind] = plan.engine.request(job, plan.facts)
        submit.write_request(folder, job, requests[kind], plan.argv, plan.settings_of(setup))
        (folder / folders.TICKET_FILE).write_text(folder.name + "\n")


# ---- what comes back ---------------------------------------------------------------------------------------


class _SeriesFollowing(follow.Following):
    """Follows the job of a series: what it prints is that of its launches, in turn."""

    def __init__(self, folder: Path, err: TextIO, *, cancels: bool, wait: float | None, ends: bool) -> None:
        handle = submit.read_handle(folder)
        super().__init__(handle, folder, self._show_state, err, wait=wait, cancels=cancels, ends=ends)
        self._launches = Launches(read_plan(folder), err)
        # Of the launch that goes on: what hears it, keeps it and reads its lines.
        self._open: tuple[Callable[[Event], None], follow.Hearing, LaunchReader] | None = None
        self._lost = ""  # why a host is

    def _show_state(self, item: Event) -> None:
        if item["event"] == EventKind.STATE:
            self._say(f"job {item['job']}: {item['phase']}" + (f": {item['why']}" if item["why"] else ""))

    def _report_silence(self, now_s: float) -> None:
        """Launches come and go: their own limit ends one that hangs."""

    def _take_items(self, interrupt: Interrupt) -> None:
        self._launches = Launches(read_plan(self._folder), self._err)  # another process may have gone on
        with self._launches.shown() as self._show_step:
            self._show_step()
            super()._take_items(interrupt)

    def _take_line(self, item: Output, keep: object) -> None:
        del keep
        self._heard_s = time.monotonic()
        if (found := _LINE.fullmatch(item.text)) is None:
            self._hearing.take_output(item)
        else:
            self._take(int(found[1]), found[2], found[3])

    def _take(self, number: int, kind: str, text: str) -> None:
        """A line of a launch; of those that were judged before, it comes once more."""
        while (planned := self._launches.next()) is not None and planned.number < number:
            self._end(planned, {})  # its end is no longer in the output
        if planned is None or planned.number > number:
            return
        _, hearing, reader = self._open = self._open or self._begin(planned)
        if kind != "=":
            for item in reader.take(text.encode(), is_error=kind == "e"):
                hearing.take_output(item)
            return
        fate = json.loads(text)
        if fate.keys() == {"limit_s"}:
            hearing.run_out_of_time(float(fate["limit_s"]))
        elif "lost" in fate:
            self._lost = fate["lost"]
        elif not fate.get("ended"):
            self._end(planned, fate)

    def _begin(self, planned: Planned) -> tuple[Callable[[Event], None], follow.Hearing, LaunchReader]:
        hear = self._launches.begin(planned)
        hearing = follow.Hearing(planned.folder, hear)
        hearing.replay()
        own = optional(self._engine, "reader")(self._handle, self._folder)
        return hear, hearing, own or LaunchReader()

    def _end(self, planned: Planned, fate: dict[str, Any]) -> None:
        self._open = self._open or self._begin(planned)
        if fate.get("skipped"):
            shutil.rmtree(planned.folder)
            self._launches.skip(planned)
        else:
            self._launches.add(planned, self._judge(fate.get("code")), fate.get("seconds", 0.0))
        self._open = None
        self._show_step()

    def _judge(
        self, code: int | None, ended: JobState | None = None, *, interrupted: bool = False
    ) -> ExitCode:
        """The launch that went on, by its launcher's exit code, or by how the job ``ended`` before it."""
        assert self._open is not None
        hear, hearing, reader = self._open
        for item in reader.rest():
            hearing.take_output(item)
        if code is not None and 128 < code < 193:  # as shells have it: a signal's number follows 128
            code = 128 - code
        state = ended or reader.end(code)
        verdict = hearing.close(hearing.whole_story(self._handle.id, state, interrupted=interrupted))
        if verdict.error is not None:
            hear(verdict.error)
        return verdict.code

    def _finish(self) -> ExitCode:
        """After the last launch: why there are no more, and what the job left on its engine."""
        was_cancelled = self.wants_end or (self._folder / folders.CANCELLED_FILE).is_file()
        if self._open is not None:
            self._judge(None, ended=self.state, interrupted=was_cancelled)
        if self._launches.next() is not None:
            why = INTERRUPTED
            if not was_cancelled:
                over = self.given_up or self._over()
                why = over.message
                self._say(f"error: {over.message}\nhint: {over.hint}")
            self._launches.stop(why)
        for planned in self._launches.rest():
            if not folders.is_started(planned.folder):  # it had no turn
                shutil.rmtree(planned.folder, ignore_errors=True)
        self._quietly(lambda: follow.clean(self._handle, self._folder))
        folders.write_ended(self._folder, int(ExitCode.OK), None)
        return ExitCode.OK

    def _over(self) -> SiteError:
        """Why there are no more launches: the engine knows best where it ended the job."""
        state = self.state
        engine_ended = state.out_of_time or state.cancelled or not self._lost
        why = state.why if engine_ended and state.why else self._lost or "no reason given"
        return SiteError(
            f"job {self._handle.id}, which runs all launches, has ended: {why}",
            hint=state.hint
            or "give a --time-limit for all launches; `busbw compare` joins series of the same setups",
        )


def follow_series(
    folder: Path, err: TextIO, *, cancels: bool, wait: float | None = None, ends: bool = False
) -> Series | None:
    """Follow the job of a series to its end, from the first launch that nobody has judged; what is known
    then, None where the user left it (not ``cancels``). ``ends`` it, once what it printed so far was read.
    Raises SiteError where the engine is lost.
    """
    if folders.read_ended(folder) is None:
        following = _SeriesFollowing(folder, err, cancels=cancels, wait=wait, ends=ends)
        following.follow()
        if following.left:
            return None
    return read_plan(folder)


def is_series_job(folder: Path) -> bool:
    """Whether a folder is that of a series whose launches are in one job."""
    return is_series(folder) and (folder / folders.JOB_FILE).is_file()


def runs_in_one_job(engine: str) -> bool:
    """Whether an engine runs a series in one job; else its launches are runs of their own."""
    return ENGINES[engine].runs_series
