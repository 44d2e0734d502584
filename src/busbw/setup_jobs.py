"""Launches of setups on engines: each one a job (or a step) of its own, or all in turn in one job, which
holds its nodes throughout.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from busbw import job_session, job_submit
from busbw.errors import AllocationOver, ExitCode, SiteError, UsageError
from busbw.job_allocation import refuse_over
from busbw.launchers.engine import (
    TURN,
    Engine,
    Handle,
    Job,
    JobRequest,
    TakesTurns,
    Turns,
    Work,
    load,
    load_turns,
)
from busbw.launchers.interrupt import Interrupt, as_ctrl_c
from busbw.launchers.keep_nodes import on_nodes_of
from busbw.launchers.variables import library_folders
from busbw.model.event import Event
from busbw.planning.setups import Setup
from busbw.record import folder as folders
from busbw.settings.words import to_words

if TYPE_CHECKING:
    from busbw.settings.launch import LaunchSettings
    from busbw.settings.run import RunSettings

# Front process's own words, and what a launch of a setup decides.
_OWN: Final = ("format", "dry_run", "launches", "ranks", "deliver", "presets_used", "overridden")
# How often an engine that does not answer is asked to remove a job, and for how long.
_AGAIN_SECONDS: Final = 2.0
_REFUSED_SECONDS: Final = 30.0

# Starts one launch and waits for its end: (setup, nodes or 0, run folder, hear) -> exit code. Raises
# BusbwError for a launch that cannot be started.
Starter = Callable[[Setup, int, Path, Callable[[Event], None]], ExitCode]


@dataclass(frozen=True)
class Launching:
    """What all launches of a series on an engine share. ``environ`` goes over every setup's own (``--env``),
    ``limit_seconds`` is of each.
    """

    operations: tuple[str, ...]
    settings: RunSettings
    launch: LaunchSettings
    environ: Mapping[str, str]
    limit_seconds: float | None
    argv: tuple[str, ...]
    err: TextIO

    @cached_property
    def engine(self) -> Engine:
        """Of all launches."""
        return load(str(self.launch.on))

    @cached_property
    def facts(self) -> Mapping[str, str]:
        """What the engine must know of its cluster, asked once."""
        return self.engine.inquire(self.launch)

    def settings_of(self, setup: Setup) -> RunSettings:
        """With the setup's flags."""
        return replace(self.settings, **setup.flags)

    def job_of(
        self, setup: Setup, nodes: int, folder: Path, run_id: str = "", launch: LaunchSettings | None = None
    ) -> Job:
        """A launch as a job; ``run_id`` is the folder's name if it is not given."""
        own = self.settings_of(setup)
        words = ("run", *self.operations, *to_words(own, _OWN), "--format=jsonl", f"--deliver={folder}")
        return Job(
            run_id=run_id or folder.name,
            folder=str(folder),
            work=Work(words),
            launch=replace(launch or self.launch, nodes=str(nodes) if nodes else ""),
            environ={**setup.environ, **self.environ},
            prepend=prepended(setup, self.launch, self.environ),
            backend=own.backend,
            world=own.world,
            ranks=own.ranks,
        )

    def say(self, text: str) -> None:
        """Tell the user, where there still is one."""
        with contextlib.suppress(OSError):
            print(text, file=self.err, flush=True)


def prepended(setup: Setup, launch: LaunchSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """The setup's own, before those of --library-path; --env says a variable whole."""
    found = library_folders(launch.library_path, {**setup.environ, **environ})
    for name, own in setup.prepend.items():
        found[name] = ":".join(filter(None, (own, found.get(name, ""))))
    return {name: own for name, own in found.items() if name not in environ}


def engine_starter(shared: Launching, planned: Iterable[tuple[Setup, int]]) -> Starter:
    """Launches that are jobs of their own, on the same nodes where the engine is told them (--job-id,
    --hosts). Raises UsageError where the engine cannot start one that is ``planned`` (setup, nodes): a series
    must not end in the middle for what is known before. A launch that failed raises AllocationOver where its
    allocation has ended.
    """
    launch = shared.launch

    def start(setup: Setup, nodes: int, folder: Path, hear: Callable[[Event], None]) -> ExitCode:
        job = shared.job_of(setup, nodes, folder)
        try:
            request = shared.engine.request(job, shared.facts)
            handle = job_submit.submit(job, request, shared.argv, shared.settings_of(setup))
            following = job_session.start_following(
                handle, folder, hear, shared.err, wait=launch.wait, limit_seconds=shared.limit_seconds
            )
            code = job_session.follow(following)
        except SiteError:
            refuse_over(launch.job_id)
            raise
        if code not in (ExitCode.OK, ExitCode.BAD_VERDICT):
            refuse_over(launch.job_id)
        return code

    for setup, nodes in planned:
        _refuse_unset(setup, launch)
        shared.engine.request(shared.job_of(setup, nodes, _somewhere()), shared.facts)
    return start


def _refuse_unset(setup: Setup, launch: LaunchSettings) -> None:
    if setup.unset:
        raise UsageError(
            f"setup {setup.name} unsets {', '.join(setup.unset)}, which --on {launch.on} cannot",
            hint="let it extend a setup without the variables, or set them to what they should be",
        )


def _somewhere() -> Path:
    """A launch's folder, for a request that is not submitted."""
    return folders.environ_home() / "SERIES" / folders.LAUNCHES / "0001"


@dataclass(frozen=True)
class _Held:
    """A job whose pods run launches in turn; ``first`` is the number of the launch that is turn 0."""

    handle: Handle
    request: JobRequest
    nodes: int
    first: int
    turns: Turns


class TurnStarter:
    """Launches in turn in one job on each number of nodes, in the ``order`` that all of them have. Use it
    within ``held``.

    A job that ended before its last turn, for what a launch did or the cluster, is followed by one for the
    launches that are left, on the nodes that were measured on before; one that somebody deleted, or that had
    no time left, raises AllocationOver.
    """

    def __init__(self, shared: Launching, takes: TakesTurns, order: Sequence[Setup]) -> None:
        self._shared, self._takes, self._order = shared, takes, tuple(order)
        self._held: _Held | None = None
        self._measured: dict[int, Path] = {}  # by number of nodes: the last launch that did

    def request(self, nodes: int, folder: Path | None = None) -> JobRequest:
        """The job for the launch in ``folder`` and all after it on as many nodes. Raises UsageError."""
        launch = self._shared.launch
        at = folder or _somewhere()
        number = int(at.name)
        rest = self._order[(number - 1) % len(self._order) :]
        run_id = "compare" if folder is None else f"{at.parent.parent.name}n{nodes or ''}"
        if nodes in self._measured:
            launch = on_nodes_of(self._measured[nodes], launch, self._shared.err)
        requests = {}
        for setup in dict.fromkeys(setup.name for setup in rest):
            one = next(found for found in rest if found.name == setup)
            _refuse_unset(one, launch)
            job = self._shared.job_of(one, nodes, at, run_id, launch)
            requests[setup] = self._shared.engine.request(job, self._shared.facts)
        order = [(setup.name, str(at.parent / f"{number + later:04}")) for later, setup in enumerate(rest)]
        return self._takes.join(requests, order, self._shared.limit_seconds)

    def __call__(self, setup: Setup, nodes: int, folder: Path, hear: Callable[[Event], None]) -> ExitCode:
        if self._held is not None and self._held.nodes != nodes:
            self.close()
        shared = self._shared
        handle, held = self._submit(setup, nodes, folder)
        following = job_session.start_following(
            handle,
            folder,
            hear,
            shared.err,
            wait=shared.launch.wait,
            limit_seconds=shared.limit_seconds,
            turns=held.turns,
        )
        if handle.details[TURN] != "0":  # it waits for the turn before, which has its own limit
            following.wait_seconds = None
        try:
            code = job_session.follow(following)
        except SiteError:
            self._go_on(following)
            raise
        if code is ExitCode.OK:
            self._measured[nodes] = folder
        if code is not ExitCode.INTERRUPTED:
            self._go_on(following)
        return code

    def _submit(self, setup: Setup, nodes: int, folder: Path) -> tuple[Handle, _Held]:
        held, number = self._held, int(folder.name)
        request = self.request(nodes, folder) if held is None else replace(held.request, files={})
        turn = {TURN: str(0 if held is None else number - held.first)}
        request = replace(request, details={**request.details, **turn})
        running = None if held is None else replace(held.handle, details={**held.handle.details, **turn})
        shared = self._shared
        job = shared.job_of(setup, nodes, folder)
        handle = job_submit.submit(job, request, shared.argv, shared.settings_of(setup), running)
        if held is None:
            details = {name: value for name, value in handle.details.items() if name != TURN}
            whole = replace(handle, details=details)
            held = _Held(whole, request, nodes, number, self._takes.turns(whole))
            self._held = held
            shared.say(f"submitted {shared.launch.on} job {handle.id}, which runs the launches in turn")
        return handle, held

    def _go_on(self, following: job_session.Following) -> None:
        """After a launch: give up a job that has ended or will. Raises AllocationOver."""
        held = self._held
        assert held is not None
        number = int(following.folder.name)
        if number % len(self._order) == 0:
            self.close()  # the last one
            return
        by_us = following.cancelled_s is not None or following.given_up is not None
        over = held.turns.over()
        if over is None and not by_us:
            return
        self.close()
        is_wanted = over is not None and (over.out_of_time or (over.code is None and not over.host))
        why = over.why if over is not None and not by_us else "it was cancelled"
        if is_wanted and not by_us:
            raise AllocationOver(
                f"job {held.handle.id}, which all launches run in, has ended: {why}",
                hint="give --time-limit for all launches together; several series of the same setups are one",
            )
        self._shared.say(f"job {held.handle.id} has ended ({why}): a new one has the launches that are left")

    def close(self) -> None:
        """Remove the job, if there is one; where the cluster does not take that, it is said."""
        held, self._held = self._held, None
        if held is None:
            return
        held.turns.close()
        give_up_s = time.monotonic() + _REFUSED_SECONDS
        while True:
            try:
                self._shared.engine.clean(held.handle)
            except SiteError as error:
                if time.monotonic() < give_up_s:
                    time.sleep(_AGAIN_SECONDS)
                    continue
                self._shared.say(
                    f"error: job {held.handle.id} was not removed and may go on: {error.message}"
                )
                self._shared.say(f"hint: {error.hint}")
            return


def turn_starter(shared: Launching, order: Sequence[Setup], counts: Sequence[int]) -> TurnStarter | None:
    """Launches in turn, where the engine takes them so; None where it does not. Raises UsageError as
    ``engine_starter`` does, for what is planned on each of ``counts`` nodes.
    """
    takes = load_turns(str(shared.launch.on))
    if takes is None:
        return None
    starter = TurnStarter(shared, takes, order)
    for count in counts:
        starter.request(count)
    return starter


@contextlib.contextmanager
def held(starter: TurnStarter) -> Iterator[Starter]:
    """The starter, whose job is removed in the end, whatever that is; SIGTERM and SIGHUP are as Ctrl-C."""
    with as_ctrl_c():
        try:
            yield starter
        finally:
            with Interrupt():  # a second Ctrl-C must not leave the job
                starter.close()
