"""The contract between busbw and an engine: what is asked, what is submitted, what is heard back.

An engine is a module with the functions of ``Engine``, and a row of ``plan.flags.engines``. It is imported
when it is used, so that ``--help`` needs no Kubernetes client. ``request`` is pure: what the cluster must be
asked first is asked by ``inquire``, so a request can be compared as text in a test and printed by
``--dry-run``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, cast

from busbw.errors import SiteError
from busbw.launch.base import Command
from busbw.launch.command import prepending
from busbw.launch.topology.order import RankOrder
from busbw.model.finding import Finding, strictly, worst_first
from busbw.plan.flags.engines import ENGINES
from busbw.plan.flags.launch import LaunchSettings
from busbw.redact import HIDDEN, redact_text, redact_variables, redact_words


@dataclass(frozen=True)
class Work:
    """What every rank executes: busbw's own command line, which joins the launcher's ranks, or the user's
    command (``busbw exec``).
    """

    words: tuple[str, ...]
    is_busbw: bool = True


@dataclass(frozen=True)
class Job:
    """What the user wants run, and where: the input of ``Engine.request``.

    ``folder`` is the run folder on this machine, ``environ`` the variables of the measured processes (from
    --env and --env-file), ``backend`` and ``world`` as the user said them (auto where not), ``ranks`` how
    many there are to be in all, where that was said. ``prepend`` are folders to put before what a variable
    has where the ranks are.
    """

    run_id: str
    folder: str
    work: Work
    launch: LaunchSettings
    environ: Mapping[str, str] = field(default_factory=dict)
    backend: str = "auto"
    world: str = "auto"
    ranks: int | None = None
    prepend: Mapping[str, str] = field(default_factory=dict)

    def argv(self, python: str) -> tuple[str, ...]:
        """What each rank executes, where ``python`` is the Python that has busbw."""
        ours = (python, "-m", "busbw") if self.work.is_busbw else ()
        return (*prepending(self.prepend), *ours, *self.work.words)

    def without_secrets(self) -> Job:
        """As a dry run shows it."""
        return replace(
            self,
            environ=redact_variables(self.environ, HIDDEN),
            prepend=redact_variables(self.prepend, HIDDEN),
            work=self.work if self.work.is_busbw else Work(redact_words(self.work.words, HIDDEN), False),
        )

    @property
    def name(self) -> str:
        """A name that is unique and legal on every engine: letters, digits and hyphens, at most 40."""
        parts = self.run_id.split("-")  # 20261121-181502-all_reduce-3f9a: the end is random digits
        return "-".join(("busbw", *parts[:2], parts[-1])).lower()


@dataclass(frozen=True)
class JobRequest:
    """Everything that will be submitted. ``files`` are written to the run folder's request/ first (name ->
    text); ``commands`` submit them, where a command line does.
    """

    engine: str
    name: str
    ranks: int | None
    nodes: int | None
    files: Mapping[str, str] = field(default_factory=dict)
    commands: tuple[Command, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict)  # what submit needs beside; not shown
    payload: object = None  # the same, where it is a value of the engine's own
    rank_order: RankOrder | None = None  # what --topology came to
    notes: tuple[str, ...] = ()  # what the user should know of it; told on standard error

    def __str__(self) -> str:
        """What --dry-run prints: the file, then the commands."""
        parts = [text.rstrip() + "\n" for text in self.files.values()]
        lines = [f"# {command.whole}" if self.files else command.whole for command in self.commands]
        return "\n".join((*parts, *lines))

    def without_secrets(self) -> JobRequest:
        """As it is shown."""
        return replace(
            self,
            files={name: redact_text(text, HIDDEN) for name, text in self.files.items()},
            commands=tuple(command.without_secrets() for command in self.commands),
        )


@dataclass(frozen=True)
class Handle:
    """A submitted job, as it is kept in request/job.json for ``attach``, ``jobs``, ``cancel``, ``clean``."""

    engine: str
    id: str
    name: str
    details: Mapping[str, str] = field(default_factory=dict)


class Phase(StrEnum):
    """How far a job is."""

    PENDING = "pending"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True)
class SeenRanks:
    """What an engine saw of ranks that an MPI launcher started: the host of each, the last words of each,
    those that ended, and of these the ones that took no leave, by themselves or told to by a signal, and that
    nobody was ending: in the order in which that was heard.
    """

    hosts: Sequence[str] = ()
    words: Mapping[int, Sequence[str]] = field(default_factory=dict)
    ended: Sequence[int] = ()
    died: Sequence[int] = ()


@dataclass(frozen=True)
class JobState:
    """A job's state by the engine's own account.

    ``why``: the engine's reason, in its words. ``hopeless``: it will not start by itself (bad request,
    quota): the run ends with the reason, instead of waiting. ``hint`` says what to try. ``code``: exit code
    of an ENDED job, negative for a signal, None if not known. ``rank`` and ``host``: who failed, where known.
    ``out_of_time``: the engine ended it because of its time limit; ``cancelled``: as somebody wanted.
    ``seen``: of its ranks, where ``why`` does not say it.
    """

    phase: Phase
    why: str = ""
    hopeless: bool = False
    hint: str = ""
    code: int | None = None
    rank: int | None = None
    host: str = ""
    out_of_time: bool = False
    cancelled: bool = False
    seen: SeenRanks = field(default_factory=SeenRanks, compare=False)

    @property
    def knows_cause(self) -> bool:
        """Whether it says which rank failed, or that time ran out: survivors only see each other go."""
        return self.rank is not None or self.out_of_time


@dataclass(frozen=True)
class Output:
    """A line that the job printed; ``source`` is the node or pod, where known."""

    text: str
    source: str = ""
    is_error: bool = False


Item = Output | JobState | None


# What an engine found out, by names and in types of its own.
Facts = Mapping[str, Any]


class Engine(Protocol):
    """The functions that every engine's module has; ``optional`` has the others."""

    # Seconds after which a job that has not started is given up, None = never; --wait overrides.
    WAIT_SECONDS: float | None

    def check(self, launch: LaunchSettings) -> None:
        """Pure. Raises UsageError for settings, words of --set among them, that it never takes."""

    def inquire(self, launch: LaunchSettings, command: tuple[str, ...] = (), *, dry: bool = False) -> Facts:
        """What must be known of the cluster to write the request; ``command`` is the user's, where it is not
        busbw that is to be started. Raises SiteError where the engine is not there, UsageError for settings
        it cannot honour. ``dry``: for a dry run, which goes on with guesses where nothing answers; the fact
        ``unasked`` then says so.
        """

    def request(self, job: Job, facts: Facts) -> JobRequest:
        """Pure. Raises UsageError for settings that do not fit."""

    def submit(self, request: JobRequest, folder: Path) -> Handle:
        """Submit; ``folder`` is the run folder, with the request's files under request/. Raises SiteError
        with the engine's own words and a hint.
        """

    def follow(self, handle: Handle, folder: Path) -> Iterator[Item]:
        """States as they change and lines as they come, None at least every half second; the last item is an
        ENDED state, after all output. Starts from the job's first line each time it is called (attach):
        events that were seen before are recognised by their numbers. Raises SiteError where the engine is
        lost, NotHome where the job has ended and its output cannot be read now.
        """

    def cancel(self, handle: Handle, *, now: bool) -> None:
        """End the job, with time for last words unless ``now``. No error where it has ended; raises SiteError
        where the engine did not take it.
        """

    def state(self, handle: Handle) -> JobState:
        """The state at this moment; ENDED also where the engine has forgotten the job."""


class LaunchReader:
    """Reads what a job, or one launch of a series, printed: here the ranks' lines as they are."""

    def take(self, line: bytes, *, is_error: bool) -> Iterator[Output]:
        """A line without its line break."""
        yield Output(line.decode(errors="replace"), is_error=is_error)

    def rest(self) -> Iterator[Output]:
        """What is still open when the launch has ended."""
        yield from ()

    def end(self, code: int | None) -> JobState:
        """How it ended, by the launcher's exit code and what was read."""
        return JobState(Phase.ENDED, code=code)


class SeriesEngine(Engine, Protocol):
    """An Engine that runs a series in one job (``launch.job_loop``); its row has ``runs_series``."""

    def start(self, job: Job, series: Job, facts: Facts) -> Command:
        """Pure. How the loop of a series' job starts a launch that ``job`` describes. Raises UsageError."""

    def sweep(self, series: Job, words: tuple[str, ...], facts: Facts) -> tuple[str, ...]:
        """Pure. What the loop executes to have ``words`` and one more executed once on every host of the job;
        it fails where a host does.
        """

    def series_request(self, series: Job, loop: tuple[str, ...], facts: Facts) -> JobRequest:
        """Pure. The job: it executes a Python that is on its first host with the words ``loop``."""


def load(name: str) -> Engine:
    """The engine of a name in ENGINES. Raises what its module raises on import (SiteError for an extra)."""
    return cast("Engine", import_module(ENGINES[name].module))


def optional(engine: Engine, part: str) -> Callable[..., Any]:
    """A function that an engine need not have; it does nothing then.

    ``look_before(job, request)``: findings of what can be asked of the engine before a job is submitted.
    ``collect(handle, folder)``: after the end, bring what every node printed, and NCCL's logs, to log/ of the
    run folder. ``clean(handle)``: remove what the job left on the engine; no error where nothing is left.
    ``reader(handle, folder)``: a LaunchReader of its own for launches of the series with that folder.
    """
    return getattr(engine, part, lambda *_: None)


def look_before(job: Job, request: JobRequest, *, strict: bool) -> tuple[Finding, ...]:
    """What the engine itself says before a job is submitted: findings, the worst first. Empty where it cannot
    be asked for that; raises SiteError where it is not there.
    """
    found: Sequence[Finding] = optional(load(request.engine), "look_before")(job, request) or ()
    named = [replace(each, check=each.check or f"before-{request.engine}") for each in found]
    return worst_first(strictly(named) if strict else named)


# A server's restart; a job lives through it.
PATIENCE_SECONDS: Final = 120.0


class Look:
    """Asks a server for a job's state: often at first, and less the longer nothing changes, since many users
    share it. ``ask`` gives the state or raises SiteError, at once where it is one of ``final``; ``name`` is
    the job's, for the error. ``last`` is its last answer.
    """

    def __init__(
        self,
        ask: Callable[[], JobState],
        name: str,
        final: tuple[type[SiteError], ...] = (),
        *,
        first_s: float,
        last_s: float,
    ) -> None:
        self.last: JobState | None = None
        self._ask, self._name, self._final = ask, name, final
        self._first_s, self._last_s, self._pause_s = first_s, last_s, first_s
        self._next_s = 0.0
        self._silent_since_s: float | None = None

    def now(self, *, due: bool = False) -> JobState | None:
        """The state, where it is time to ask (or ``due``) and it has changed. Raises SiteError after too long
        without an answer.
        """
        if not due and time.monotonic() < self._next_s:
            return None
        before = self.last
        try:
            self.last, self._silent_since_s = self._ask(), None
        except self._final:
            raise
        except SiteError as error:
            now_s = time.monotonic()
            self._silent_since_s = self._silent_since_s or now_s
            if now_s - self._silent_since_s >= PATIENCE_SECONDS:
                raise SiteError(
                    f"{error.message} (for {PATIENCE_SECONDS:g} s now; job {self._name} goes on)",
                    hint="follow it with `busbw attach` once it answers",
                ) from error
        has_changed = self.last != before
        self._pause_s = self._first_s if has_changed else min(self._pause_s * 1.3, self._last_s)
        self._next_s = time.monotonic() + self._pause_s
        return self.last if has_changed else None
