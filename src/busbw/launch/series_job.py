"""One job that runs all launches of a series: what is sent to it, and its output as that of the launches.

The job runs ``job_loop``. Each launch is planned, judged and recorded here, as a job of its own would be: to
``follow`` it is a job whose engine is ``_LaunchEngine``.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from busbw.errors import AllocationOver, BusbwError, ExitCode, SiteError, UsageError
from busbw.launch import follow, job_loop, submit
from busbw.launch.engine import (
    Engine,
    Handle,
    Item,
    Job,
    JobRequest,
    JobState,
    LaunchReader,
    Output,
    Phase,
    SeriesEngine,
    Start,
    load,
)
from busbw.launch.interrupt import as_ctrl_c
from busbw.launch.series import (
    INTERRUPTED,
    Launched,
    Series,
    create_series,
    go_on,
    is_series,
    planned_launches,
    read_series,
)
from busbw.model.event import Event, EventKind
from busbw.plan.flags.engines import ENGINES
from busbw.record import folder as folders
from busbw.record.owner import Owner
from busbw.redact import redact_text

if TYPE_CHECKING:
    from busbw.launch.series_plan import SeriesPlan
    from busbw.plan.setups import Setup

# A line of the loop.
_LINE: Final = re.compile(r"@(\d+) ([oe=]) (.*)", re.DOTALL)
# Stands for a launch's number in what is rendered once for all launches of a setup.
_NUMBER: Final = "@number@"
# Linux takes no longer word (MAX_ARG_STRLEN).
_MOST_WORD_BYTES: Final = 131_000
# How long the end of a job that has lost a host, or has run all launches, is waited for.
_END_SECONDS: Final = 60.0
_READ_SECONDS: Final = 0.5
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


def _start(plan: SeriesPlan, setup: Setup, nodes: int, folder: Path) -> Start:
    """How a setup is started in the series' job, whatever the launch's number. Raises UsageError."""
    job = plan.job_of(setup, nodes, folder / folders.LAUNCHES / _NUMBER, folder.name)
    marked = replace(job, environ={**job.environ, job_loop.MARK: folder.name})
    return _module(plan).start(marked, _series_job(plan, folder), plan.facts)


def _module(plan: SeriesPlan) -> SeriesEngine:
    return cast("SeriesEngine", plan.engine)


def show_job(plan: SeriesPlan) -> tuple[JobRequest, Start]:
    """The job and the baseline's launch in it, for --dry-run. Raises UsageError."""
    folder = folders.environ_home() / "compare"
    request = _module(plan).series_request(_series_job(plan, folder), _SHOWN, plan.facts)
    return request, _start(plan, plan.setups[0], plan.counts[0], folder)


def series_request(plan: SeriesPlan, series: Series) -> JobRequest:
    """The job of a series that was made. Raises UsageError."""
    job, module = _series_job(plan, series.folder), _module(plan)
    sweep = ("sh", "-c", job_loop.SWEEP, "busbw-sweep", series.folder.name)
    task = {
        "mark": series.folder.name,
        "sweep": module.sweep(job, sweep, plan.facts),
        "launches": list(_launches(plan, series)),
    }
    packed = base64.b64encode(zlib.compress(json.dumps(task).encode(), 9)).decode()
    if len(packed) > _MOST_WORD_BYTES:
        raise UsageError(
            f"{series.planned} launches are too much to send to a job ({len(packed)} bytes)",
            hint="give fewer --blocks, or fewer numbers of nodes, and measure a second series",
        )
    return module.series_request(job, ("-c", Path(job_loop.__file__).read_text(), packed), plan.facts)


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
        setup = by_name[planned.setup]
        folder = folders.create(planned.folder.parent, planned.folder.name)
        job = plan.job_of(setup, planned.nodes, folder)
        kind = (planned.setup, planned.nodes)
        request = requests.get(kind) or plan.engine.request(job, plan.facts)
        requests[kind] = request
        submit.write_request(folder, job, request, plan.argv, plan.settings_of(setup))
        (folder / folders.TICKET_FILE).write_text(folder.name + "\n")


# ---- what comes back ---------------------------------------------------------------------------------------


class Left(Exception):
    """Nobody follows the series, and its job may go on: the user left, or its engine was lost (``error``)."""

    def __init__(self, error: SiteError | None = None) -> None:
        super().__init__()
        self.error = error


class _JobOutput:
    """What the job prints, by launch: in turn, as the loop runs them."""

    def __init__(self, engine: Engine, handle: Handle, folder: Path) -> None:
        self.state = JobState(Phase.PENDING)
        self.fates: dict[int, dict[str, Any]] = {}
        self._items = engine.follow(handle, folder)
        self._log = folder / folders.LOG_FILE
        self._kept: tuple[int, Item] | None = None  # the first item of a later launch

    @property
    def is_over(self) -> bool:
        """Whether the job has ended, and all that it printed was read."""
        return self.state.phase is Phase.ENDED

    def of(self, number: int) -> Iterator[Item]:
        """Lines of a launch, states of the job, and None now and then, until it is known what became of the
        launch, or the job has ended.
        """
        while number not in self.fates and not self.is_over:
            found, item = self._next()
            if found == number or (found == 0 and not self.is_over):
                yield item
            elif found > number:
                self._kept = found, item
                self.fates[number] = {}  # what it printed is no longer there
            else:
                yield None

    def fate(self, number: int) -> dict[str, Any] | None:
        """What became of a launch, once that is known; None where the job ended before."""
        for _ in self.of(number):
            pass
        return self.fates.get(number)

    def drain(self, patience_s: float) -> None:
        """Read to the job's end, not longer than that."""
        give_up_s = time.monotonic() + patience_s
        while not self.is_over and time.monotonic() < give_up_s:
            self._next()

    def close(self) -> None:
        """Read no more."""
        if hasattr(self._items, "close"):
            self._items.close()

    def _next(self) -> tuple[int, Item]:
        """The next item with its launch's number, 0 where it is of none."""
        if self._kept is not None:
            kept, self._kept = self._kept, None
            return kept
        item = next(self._items, JobState(Phase.ENDED))
        if isinstance(item, JobState):
            self.state = item
            return 0, item
        if item is None:
            return 0, None
        return self._line(item)

    def _line(self, item: Output) -> tuple[int, Item]:
        found = _LINE.fullmatch(item.text)
        if found is None:
            with self._log.open("a") as log:
                log.write(redact_text(item.text) + "\n")
            return 0, None
        number, kind, text = int(found[1]), found[2], found[3]
        if kind != "=":
            return number, Output(text, is_error=kind == "e")
        said = json.loads(text)
        if said.keys() == {"limit_s"}:
            return number, replace(self.state, limit_s=float(said["limit_s"]))
        self.fates[number] = said
        return number, None


class _LaunchEngine:
    """An Engine whose job is one launch of a series: what ``follow`` needs of it."""

    WAIT_SECONDS: float | None = None

    def __init__(
        self, output: _JobOutput, number: int, reader: LaunchReader, end: Callable[[bool], None]
    ) -> None:
        self._output, self._number, self._reader, self._end = output, number, reader, end

    def follow(self, handle: Handle, folder: Path) -> Iterator[Item]:
        """See Engine."""
        del handle, folder
        if self._output.state.phase is not Phase.PENDING:
            yield self._output.state
        for item in self._output.of(self._number):
            if isinstance(item, Output):
                yield from self._reader.read(item.text, is_error=item.is_error)
            else:
                yield item
        yield from self._reader.rest()
        yield self._last_state()

    def _last_state(self) -> JobState:
        fate = self._output.fates.get(self._number)
        if fate is None:
            return replace(self._output.state, phase=Phase.ENDED)
        code = fate.get("code")
        # As shells have it, a signal's number follows 128.
        return self._reader.end(128 - code if code is not None and 128 < code < 193 else code)

    def cancel(self, handle: Handle, *, now: bool) -> None:
        """See Engine. The loop ends a launch that hangs; only the whole series can be ended from here."""
        del handle
        self._end(now)

    def collect(self, handle: Handle, folder: Path) -> None:
        """See Engine. All that is read of a launch is in the job's output."""

    def clean(self, handle: Handle) -> None:
        """See Engine. What is left is the job's."""


class JobStarter:
    """A Starter (``launch.series``) of launches that the loop starts in the job of a series: it follows the
    next one. Raises AllocationOver where the job has ended, or a host of it is lost; Left where the user left
    (not ``cancels``).
    """

    def __init__(
        self, folder: Path, err: TextIO, *, cancels: bool, wait: float | None = None, ends: bool = False
    ) -> None:
        self._folder, self._err, self._cancels, self._wait, self._ends = folder, err, cancels, wait, ends
        self.handle = submit.read_handle(folder)
        self.engine = load(self.handle.engine)
        self.output = _JobOutput(self.engine, self.handle, folder)
        self._last_state = ""
        self._since_s = time.monotonic()

    def __call__(self, setup: Setup, nodes: int, folder: Path, hear: Callable[[Event], None]) -> Launched:
        """See the class."""
        del setup, nodes
        try:
            return self._launch(int(folder.name), folder, hear)
        except KeyboardInterrupt:
            if self._cancels:
                raise
            raise Left from None
        except AllocationOver:
            raise
        except SiteError as error:  # the engine's, and no setup's
            raise Left(error) from error

    def _launch(self, number: int, folder: Path, hear: Callable[[Event], None]) -> Launched:
        reader = cast("SeriesEngine", self.engine).reader(self.handle, self._folder)
        own = _LaunchEngine(self.output, number, reader, lambda now: self._end_series(following, now=now))
        following = follow.Following(
            self.handle,
            folder,
            lambda item: self._hear(item, hear),
            self._err,
            wait=self._wait,
            cancels=self._cancels,
            engine=cast("Engine", own),
        )
        if self._ends:
            following.end_once_read(now=False)
            # Short launches are never silent.
            if time.monotonic() - self._since_s > follow.READ_FIRST_SECONDS:
                follow.cancel(self._folder, now=False)
        code = following.follow()
        if following.left:
            raise Left
        if following.given_up is not None:
            raise AllocationOver(following.given_up.message, hint=following.given_up.hint)
        if code is ExitCode.INTERRUPTED and self._is_cancelled(following):
            return Launched(code)
        fate = self.output.fate(number)
        if fate is None or "lost" in fate or fate.get("ended"):
            raise self._over((fate or {}).get("lost", ""))
        if fate.get("skipped"):
            shutil.rmtree(folder)
            return Launched(ExitCode.OK, skipped=True)
        return Launched(code, seconds=fate.get("seconds"))

    def _is_cancelled(self, following: follow.Following) -> bool:
        return following.stopped or (self._folder / folders.CANCELLED_FILE).is_file()

    def _end_series(self, following: follow.Following, *, now: bool) -> None:
        if following.wants_end or following.given_up is not None or following.stopped:
            follow.cancel(self._folder, now=now)

    def _hear(self, item: Event, hear: Callable[[Event], None]) -> None:
        if item["event"] == EventKind.STATE:
            why = f": {item['why']}" if item["why"] else ""
            text = f"job {item['job']}: {item['phase']}{why}"
            if text != self._last_state:  # each launch hears that the job runs
                _say(text, self._err)
            self._last_state = text
        hear(item)

    def _over(self, lost: str) -> AllocationOver:
        """Why there are no more launches: the engine knows best where it ended the job."""
        self.output.drain(_END_SECONDS)
        state = self.output.state
        engine_ended = state.out_of_time or state.cancelled or not lost
        why = state.why if engine_ended and state.why else lost or "it says no reason"
        return AllocationOver(
            f"job {self.handle.id}, the allocation of all launches, has ended: {why}",
            hint=state.hint
            or "give --time-limit for all launches together; several series of the same setups are one",
        )


def follow_series(
    folder: Path, err: TextIO, *, cancels: bool, wait: float | None = None, ends: bool = False
) -> Series:
    """Follow the job of a series to its end, from the first launch that nobody has judged; what is known
    then. ``ends`` it, once what it printed so far was read. Raises Left where the user left (not
    ``cancels``), or the engine is lost.
    """
    with as_ctrl_c(), Owner(folder) as owner:
        _take(owner, err)
        series, _ = read_series(folder)
        if folders.read_ended(folder) is not None:
            return series
        starter = JobStarter(folder, err, cancels=cancels, wait=wait, ends=ends)
        series = _measured(series, starter, folder, err, cancels=cancels)
        _finish(series, starter, err)
    return series


def _measured(series: Series, starter: JobStarter, folder: Path, err: TextIO, *, cancels: bool) -> Series:
    try:
        series = go_on(series, starter, err)
    except Left:
        raise
    except BaseException:
        _cancel(starter, folder, err)
        raise
    if series.stopped and cancels:
        _cancel(starter, folder, err)
    elif series.stopped == INTERRUPTED and not (folder / folders.CANCELLED_FILE).is_file():
        raise Left  # between two launches: the job goes on
    return series


def _cancel(starter: JobStarter, folder: Path, err: TextIO) -> None:
    with contextlib.suppress(SiteError):
        if starter.engine.state(starter.handle).phase is not Phase.ENDED:
            follow.cancel(folder, now=False)
            _say(f"cancelled {starter.handle.engine} job {starter.handle.id}", err)


def _finish(series: Series, starter: JobStarter, err: TextIO) -> None:
    """After the last launch: the job's end, and what it left on its engine."""
    starter.output.drain(_END_SECONDS)
    starter.output.close()
    for planned in planned_launches(series):
        folder = planned.folder
        if not (folders.is_started(folder) or (folder / folders.ENDED_FILE).is_file()):  # it had no turn
            shutil.rmtree(folder, ignore_errors=True)
    try:
        starter.engine.collect(starter.handle, series.folder)
        starter.engine.clean(starter.handle)
    except BusbwError as error:
        _say(f"warning: {error.message}", err)
    folders.write_ended(series.folder, int(ExitCode.OK), None)


def _take(owner: Owner, err: TextIO) -> None:
    """Wait until nobody else follows the series. Raises Left where the user does not want to wait."""
    told = False
    try:
        while not owner.take():
            if not told:
                _say(f"{owner.who()} follows this series: waiting for its end", err)
            told = True
            time.sleep(_READ_SECONDS)
    except KeyboardInterrupt:
        raise Left from None


def is_series_job(folder: Path) -> bool:
    """Whether a folder is that of a series whose launches are in one job."""
    return is_series(folder) and (folder / folders.JOB_FILE).is_file()


def runs_in_one_job(engine: str) -> bool:
    """Whether an engine runs a series in one job; else its launches are runs of their own."""
    return ENGINES[engine].runs_series


def _say(text: str, err: TextIO) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(text, file=err, flush=True)
